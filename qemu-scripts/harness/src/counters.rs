//! The appliance's counters, as its console prints them.

use std::collections::BTreeMap;

/// Counters by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters(pub BTreeMap<String, u64>);

impl Counters {
    /// Takes the lines `NAME VALUE` out of `lines`, and passes over all others.
    pub fn parse<'a>(lines: impl IntoIterator<Item = &'a str>) -> Self {
        let pair = |line: &'a str| {
            let (name, value) = line.trim().split_once(char::is_whitespace)?;
            Some((name.to_owned(), value.trim().parse().ok()?))
        };
        Self(lines.into_iter().filter_map(pair).collect())
    }

    /// The value of counter `name`.
    pub fn get(&self, name: &str) -> Option<u64> {
        self.0.get(name).copied()
    }

    /// Those that return to the same value whenever nothing happens: their names
    /// begin with `rest.`.
    #[must_use]
    pub fn resting(&self) -> Self {
        let resting = self.0.iter().filter(|(name, _)| name.starts_with("rest."));
        Self(
            resting
                .map(|(name, value)| (name.clone(), *value))
                .collect(),
        )
    }

    /// Which counters differ, as `name: before -> after`.
    pub fn differences(&self, after: &Self) -> Vec<String> {
        let text = |value: Option<u64>| value.map_or("none".into(), |value| value.to_string());
        let mut names: Vec<_> = self.0.keys().chain(after.0.keys()).collect();
        names.sort();
        names.dedup();
        names
            .into_iter()
            .filter(|name| self.get(name) != after.get(name))
            .map(|name| {
                let (before, after) = (text(self.get(name)), text(after.get(name)));
                format!("{name}: {before} -> {after}")
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_lines_of_a_name_and_a_number() {
        let counters = Counters::parse(["rest.flows 64", "rx.frames  12", "eth0: up", "x -"]);
        assert_eq!(counters.0.len(), 2);
        assert_eq!(counters.get("rx.frames"), Some(12));
        assert_eq!(counters.resting().0.len(), 1);
    }

    #[test]
    fn differences_name_both_values() {
        let before = Counters::parse(["a 1", "b 2"]);
        let after = Counters::parse(["a 1", "b 3", "c 4"]);
        assert_eq!(before.differences(&after), ["b: 2 -> 3", "c: none -> 4"]);
    }
}

//! What a document has a person do, read from its code blocks, so that tests do just
//! that.
//!
//! A block's opening fence says what becomes of it behind the language, where a reader
//! does not see it: `file=PATH` (the person writes this file), `run=WHERE` (the person
//! types this, there), `until="TEXT"` (and waits for a line with this), `with=NAME` (only
//! where the person has chosen this).

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail, ensure};

/// A step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The block's text.
    pub text: String,
    /// What becomes of it.
    pub action: Action,
    /// A line of what it starts to wait for.
    pub until: Option<String>,
    /// The choice that it belongs to.
    pub with: Option<String>,
}

/// What becomes of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// It is the content of this file.
    File(String),
    /// It is typed in this place.
    Run(String),
}

/// The steps below `heading` in a document, up to the next heading of that level, or an
/// error where there are none.
pub fn steps(document: &str, heading: &str) -> Result<Vec<Step>> {
    let mut lines = document.lines();
    lines
        .find(|line| *line == heading)
        .with_context(|| format!("there is no line \"{heading}\""))?;
    let level = heading.split(' ').next().unwrap_or_default();
    let mut steps = Vec::new();
    while let Some(line) = lines.next() {
        if line.split(' ').next() == Some(level) {
            break;
        }
        let Some(fence) = line.strip_prefix("```") else {
            continue;
        };
        let text: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        let attributes = attributes(fence).with_context(|| format!("in \"{line}\""))?;
        steps.extend(step(text.join("\n") + "\n", attributes)?);
    }
    ensure!(!steps.is_empty(), "below \"{heading}\" there is no step");
    Ok(steps)
}

fn step(text: String, mut attributes: BTreeMap<&str, &str>) -> Result<Option<Step>> {
    let action = match (attributes.remove("file"), attributes.remove("run")) {
        (Some(path), None) => Action::File(path.to_owned()),
        (None, Some(place)) => Action::Run(place.to_owned()),
        (None, None) => return Ok(None),
        (Some(_), Some(_)) => bail!("a block is either a file or typed"),
    };
    let until = attributes.remove("until").map(str::to_owned);
    let with = attributes.remove("with").map(str::to_owned);
    if let Some(unknown) = attributes.keys().next() {
        bail!("a block has no attribute \"{unknown}\"");
    }
    Ok(Some(Step {
        text,
        action,
        until,
        with,
    }))
}

/// The words `key=value` and `key="value"` behind the language.
fn attributes(fence: &str) -> Result<BTreeMap<&str, &str>> {
    let mut attributes = BTreeMap::new();
    let mut rest = fence.split_once(' ').map_or("", |(_, rest)| rest).trim();
    while !rest.is_empty() {
        let (key, value) = rest.split_once('=').context("a word without \"=\"")?;
        let (value, left) = match value.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').context("an open quotation")?,
            None => value.split_once(' ').unwrap_or((value, "")),
        };
        attributes.insert(key, value);
        rest = left.trim_start();
    }
    Ok(attributes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCUMENT: &str = "\
# Top
## One
```sh
apt install x
```
Write it:
```ini file=/etc/x with=y
a=b

c
```
### Deeper
```sh run=daemon until=\"it runs\"
x -f
```
## Two
```sh run=server
z
```
";

    #[test]
    fn the_blocks_of_a_section_are_its_steps() {
        let found = steps(DOCUMENT, "## One").unwrap();
        assert_eq!(
            found,
            [
                Step {
                    text: "a=b\n\nc\n".into(),
                    action: Action::File("/etc/x".into()),
                    until: None,
                    with: Some("y".into()),
                },
                Step {
                    text: "x -f\n".into(),
                    action: Action::Run("daemon".into()),
                    until: Some("it runs".into()),
                    with: None,
                },
            ]
        );
    }

    #[test]
    fn what_cannot_be_meant_is_an_error() {
        assert!(steps(DOCUMENT, "## Three").is_err());
        assert!(steps(DOCUMENT, "# Top").is_ok());
        let bad = |fence: &str| steps(&format!("## A\n```{fence}\nx\n```\n"), "## A");
        for fence in [
            "sh",
            "sh run",
            "sh run=a file=b",
            "sh run=a on=b",
            "sh run=\"a",
        ] {
            assert!(bad(fence).is_err(), "{fence}");
        }
        assert!(bad("sh run=a").is_ok());
    }
}

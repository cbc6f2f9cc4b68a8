//! Looking for a transmitter that does not move.

/// Equal looks at a transmitter with work after which it counts as hung.
const HUNG_AFTER: u32 = 2;

/// What the looks so far have shown.
#[derive(Default)]
pub(crate) struct Watch {
    last: Option<(u64, u32)>,
    equal: u32,
}

impl Watch {
    /// Takes one look at what is unfinished; whether it has not moved for long.
    pub(crate) fn hung(&mut self, unfinished: Option<(u64, u32)>) -> bool {
        let same = unfinished.is_some() && unfinished == self.last;
        self.last = unfinished;
        self.equal = if same { self.equal + 1 } else { 0 };
        self.equal >= HUNG_AFTER
    }

    /// Whether the last look was equal to the one before it.
    pub(crate) fn is_suspicious(&self) -> bool {
        self.equal > 0
    }
}

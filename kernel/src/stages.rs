//! When each stage of the boot ended.

use crate::clock;
use crate::single::SingleCore;

const MOST: usize = 8;

struct Stages {
    ended: [(&'static str, u64); MOST],
    count: usize,
}

static STAGES: SingleCore<Stages> = SingleCore::new(Stages {
    ended: [("", 0); MOST],
    count: 0,
});

/// The stage `name` ends now. It may end before the clock runs.
pub fn end(name: &'static str) {
    let tsc = clock::tsc();
    STAGES.with(|stages| {
        if let Some(place) = stages.ended.get_mut(stages.count) {
            *place = (name, tsc);
            stages.count += 1;
        }
    });
}

/// Visits the stages in their order: the name of each, and the nanoseconds from the
/// image's first instruction to its end.
pub fn each(visit: &mut dyn FnMut(&'static str, u64)) {
    let (ended, count) = STAGES.with(|stages| (stages.ended, stages.count));
    for (name, tsc) in &ended[..count] {
        visit(name, clock::at(*tsc));
    }
}

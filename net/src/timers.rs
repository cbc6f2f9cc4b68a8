//! Deadlines of sockets, without a look at sockets that have none due.
//!
//! A binary heap that knows where each entry stands, so that there is one entry
//! a socket at most. A deadline that moves out is left alone: when it comes up,
//! the socket is asked again. A busy connection, whose deadlines move out with
//! every segment, so touches the heap once a deadline and not once a segment.
//!
//! There are two such heaps. Thousands of connections at rest have a deadline far
//! away, when their peers are asked whether they are still there; those of busy
//! ones are near. Kept apart, the former cost the latter nothing.

use alloc::vec::Vec;

/// Deadlines of things that are named by small numbers, in any unit of time.
pub struct Timers {
    near: Heap,
    far: Heap,
    /// Deadlines that are so far away or further are far.
    horizon: i64,
    /// The time when it was last looked for what is due.
    now: i64,
}

impl Timers {
    /// Without deadlines yet; those beyond `horizon` are for things at rest.
    pub fn new(horizon: i64) -> Self {
        Self {
            near: Heap::default(),
            far: Heap::default(),
            horizon,
            now: 0,
        }
    }

    /// Makes sure that `id` comes up at `at` or before. It may come up once more
    /// than it was asked for.
    pub fn arm(&mut self, id: u32, at: i64) {
        if at.saturating_sub(self.now) < self.horizon {
            self.near.arm(id, at);
        } else {
            self.far.arm(id, at);
        }
    }

    /// When the next one comes up.
    pub fn next(&self) -> Option<i64> {
        match (self.near.next(), self.far.next()) {
            (Some(near), Some(far)) => Some(near.min(far)),
            (near, far) => near.or(far),
        }
    }

    /// Takes one that is due at `now`.
    pub fn pop_due(&mut self, now: i64) -> Option<u32> {
        self.now = now;
        self.near.pop_due(now).or_else(|| self.far.pop_due(now))
    }
}

/// Deadlines with the earliest on top.
#[derive(Default)]
struct Heap {
    heap: Vec<(i64, u32)>,
    /// Where in the heap a name stands.
    position: Vec<Option<u32>>,
}

impl Heap {
    fn arm(&mut self, id: u32, at: i64) {
        let name = id as usize;
        if name >= self.position.len() {
            self.position.resize(name + 1, None);
        }
        let position = match self.position[name] {
            Some(position) if self.heap[position as usize].0 <= at => return,
            Some(position) => {
                self.heap[position as usize].0 = at;
                position as usize
            }
            None => {
                self.heap.push((at, id));
                self.heap.len() - 1
            }
        };
        self.sift_up(position);
    }

    fn next(&self) -> Option<i64> {
        self.heap.first().map(|&(at, _)| at)
    }

    fn pop_due(&mut self, now: i64) -> Option<u32> {
        let &(at, id) = self.heap.first()?;
        if at > now {
            return None;
        }
        self.heap.swap_remove(0);
        self.position[id as usize] = None;
        if !self.heap.is_empty() {
            self.sift_down(0);
        }
        Some(id)
    }

    fn sift_up(&mut self, mut at: usize) {
        while at > 0 {
            let parent = (at - 1) / 2;
            if self.heap[parent].0 <= self.heap[at].0 {
                break;
            }
            self.heap.swap(parent, at);
            self.note(at);
            at = parent;
        }
        self.note(at);
    }

    fn sift_down(&mut self, mut at: usize) {
        loop {
            let left = 2 * at + 1;
            let Some(&(left_at, _)) = self.heap.get(left) else {
                break;
            };
            let right = left + 1;
            let right_is_less = self.heap.get(right).is_some_and(|&(r, _)| r < left_at);
            let child = if right_is_less { right } else { left };
            if self.heap[at].0 <= self.heap[child].0 {
                break;
            }
            self.heap.swap(at, child);
            self.note(at);
            at = child;
        }
        self.note(at);
    }

    fn note(&mut self, at: usize) {
        let (_, id) = self.heap[at];
        self.position[id as usize] = Some(at as u32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use proptest::prelude::*;

    proptest! {
        /// Against a map of the earliest deadline of each name.
        #[test]
        fn what_is_due_comes_up_and_nothing_else(
            steps in proptest::collection::vec((0u32..20, 0i64..100, any::<bool>()), 0..300),
        ) {
            let mut timers = Timers::new(30);
            let mut model = BTreeMap::new();
            let mut all = BTreeMap::<u32, alloc::vec::Vec<i64>>::new();
            let mut now = 0;
            for (id, by, pop) in steps {
                if pop {
                    now += by / 4;
                    let first = model.values().min().copied();
                    prop_assert!(timers.next().is_none_or(|next| first.is_none_or(|first| next <= first)));
                    while let Some(id) = timers.pop_due(now) {
                        model.remove(&id);
                        let armed = all.entry(id).or_default();
                        prop_assert!(armed.iter().any(|&at| at <= now));
                    }
                    prop_assert!(model.values().all(|&at| at > now));
                } else {
                    let at = now + by;
                    timers.arm(id, at);
                    all.entry(id).or_default().push(at);
                    let due = model.entry(id).or_insert(at);
                    *due = at.min(*due);
                }
            }
            prop_assert!(model.is_empty() || timers.next().is_some());
        }
    }

    #[test]
    fn far_deadlines_come_up_as_near_ones_do() {
        let mut timers = Timers::new(100);
        timers.arm(1, 500);
        timers.arm(1, 50);
        timers.arm(2, 99);
        assert_eq!(timers.next(), Some(50));
        assert_eq!(timers.pop_due(49), None);
        assert_eq!(
            [50, 99, 499].map(|now| timers.pop_due(now)),
            [Some(1), Some(2), None]
        );
        assert_eq!(timers.next(), Some(500));
        assert_eq!(timers.pop_due(500), Some(1));
        assert_eq!(timers.next(), None);
    }
}

//! Deadlines of sockets, without a look at sockets that have none due.
//!
//! A binary heap that knows where each entry stands, so that there is one entry
//! a socket at most. A deadline that moves out is left alone: when it comes up,
//! the socket is asked again. A busy connection, whose deadlines move out with
//! every segment, so touches the heap once a deadline and not once a segment.

use alloc::vec::Vec;

/// Deadlines, in microseconds, of things that are named by small numbers.
#[derive(Default)]
pub struct Timers {
    heap: Vec<(i64, u32)>,
    /// Where in the heap a name stands.
    position: Vec<Option<u32>>,
}

impl Timers {
    /// Makes sure that `id` comes up at `at` or before.
    pub fn arm(&mut self, id: u32, at: i64) {
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

    /// When the next one comes up.
    pub fn next(&self) -> Option<i64> {
        self.heap.first().map(|&(at, _)| at)
    }

    /// Takes one that is due at `now`.
    pub fn pop_due(&mut self, now: i64) -> Option<u32> {
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
        fn pops_in_order(steps in proptest::collection::vec((0u32..20, 0i64..100, any::<bool>()), 0..200)) {
            let mut timers = Timers::default();
            let mut model = BTreeMap::new();
            for (id, at, pop) in steps {
                if pop {
                    let due = model.iter().map(|(_, &due)| due).min();
                    prop_assert_eq!(timers.next(), due);
                    match timers.pop_due(at) {
                        Some(id) => prop_assert_eq!(model.remove(&id), due),
                        None => prop_assert!(due.is_none_or(|due| due > at)),
                    }
                } else {
                    timers.arm(id, at);
                    let due = model.entry(id).or_insert(at);
                    *due = at.min(*due);
                }
            }
        }
    }
}

//! The ports that are listened on, and the memory that is kept for connections
//! to them.

use core::ops::RangeInclusive;

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use hashbrown::HashMap;

use crate::budget::Room;
use crate::hash::FlowHash;
use crate::stack::{ListenerId, OpenError, Owner};

/// A port that is listened on.
#[derive(Clone, Copy)]
pub struct Listener {
    /// Its name.
    pub id: ListenerId,
    /// What each connection takes.
    pub room: Room,
    /// Who is told of connections.
    pub owner: Owner,
    /// The memory for one connection that is set aside.
    pub reservation: Reservation,
    /// Whether the port came from the data ports.
    is_from_range: bool,
}

/// Memory set aside for a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reservation {
    /// None was asked for.
    None,
    /// It waits for a connection.
    Kept,
    /// A connection has it.
    Lent,
}

/// The ports that are listened on.
pub struct Listeners {
    by_port: HashMap<u16, Listener, FlowHash>,
    next_serial: u32,
    data_ports: DataPorts,
}

impl Listeners {
    /// None yet; those that any port will do for get one of `data_ports`.
    pub fn new(data_ports: &RangeInclusive<u16>, hash: FlowHash) -> Self {
        Self {
            by_port: HashMap::with_hasher(hash),
            next_serial: 1,
            data_ports: DataPorts::new(data_ports),
        }
    }

    /// Listens on `port`, or on a data port that is free. Memory for one
    /// connection has been set aside if `reserved`.
    ///
    /// # Errors
    ///
    /// [`OpenError::PortInUse`] and [`OpenError::NoPortFree`].
    pub fn add(
        &mut self,
        port: Option<u16>,
        room: Room,
        reserved: bool,
        owner: Owner,
    ) -> Result<ListenerId, OpenError> {
        let port = match port {
            Some(0) => return Err(OpenError::PortInUse),
            Some(port) if self.by_port.contains_key(&port) => return Err(OpenError::PortInUse),
            Some(port) => (port, false),
            None => {
                let by_port = &self.by_port;
                let is_free = |port| !by_port.contains_key(&port);
                let port = self.data_ports.take(is_free).ok_or(OpenError::NoPortFree)?;
                (port, true)
            }
        };
        let (port, is_from_range) = port;
        let id = ListenerId {
            port,
            serial: self.next_serial,
        };
        self.next_serial = self.next_serial.wrapping_add(1);
        let reservation = match reserved {
            true => Reservation::Kept,
            false => Reservation::None,
        };
        let listener = Listener {
            id,
            room,
            owner,
            reservation,
            is_from_range,
        };
        self.by_port.insert(port, listener);
        Ok(id)
    }

    /// Stops listening. Returns what listened, if it still did.
    pub fn remove(&mut self, id: ListenerId) -> Option<Listener> {
        self.by_port.get(&id.port).filter(|known| known.id == id)?;
        let listener = self.by_port.remove(&id.port)?;
        if listener.is_from_range {
            self.data_ports.give_back(id.port);
        }
        Some(listener)
    }

    /// What listens on `port`.
    pub fn at(&self, port: u16) -> Option<&Listener> {
        self.by_port.get(&port)
    }

    /// Lends the memory that is set aside for a connection to `port`. Returns
    /// whether there was some.
    pub fn lend(&mut self, port: u16) -> bool {
        match self.by_port.get_mut(&port) {
            Some(listener) if listener.reservation == Reservation::Kept => {
                listener.reservation = Reservation::Lent;
                true
            }
            _ => false,
        }
    }

    /// Keeps the memory that was lent to a connection for the next one. Returns
    /// whether the listener is still there to do so.
    pub fn keep(&mut self, id: ListenerId) -> bool {
        match self.by_port.get_mut(&id.port) {
            Some(listener) if listener.id == id => {
                listener.reservation = Reservation::Kept;
                true
            }
            _ => false,
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.by_port.len()
    }

    /// The ports, in order.
    pub fn ports(&self) -> Vec<u16> {
        let mut ports: Vec<u16> = self.by_port.keys().copied().collect();
        ports.sort_unstable();
        ports
    }
}

/// Ports of a range, given out in turn: one that came back is the last to be
/// given out again.
struct DataPorts {
    range: RangeInclusive<u16>,
    /// The first that was never given out; beyond the range if there is none.
    fresh: u32,
    returned: VecDeque<u16>,
}

impl DataPorts {
    fn new(range: &RangeInclusive<u16>) -> Self {
        Self {
            range: range.clone(),
            fresh: u32::from(*range.start()),
            returned: VecDeque::new(),
        }
    }

    /// The next one that nobody has taken by its number. Skips those that
    /// somebody has, and looks at each port once at most.
    fn take(&mut self, is_free: impl Fn(u16) -> bool) -> Option<u16> {
        while self.fresh <= u32::from(*self.range.end()) {
            let port = self.fresh as u16;
            self.fresh += 1;
            if is_free(port) {
                return Some(port);
            }
            self.returned.push_back(port);
        }
        for _ in 0..self.returned.len() {
            let port = self.returned.pop_front()?;
            if is_free(port) {
                return Some(port);
            }
            self.returned.push_back(port);
        }
        None
    }

    fn give_back(&mut self, port: u16) {
        self.returned.push_back(port);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_come_in_turn_and_none_is_lost() {
        let mut ports = DataPorts::new(&(65_533..=65_535));
        assert_eq!(ports.take(|port| port != 65_534), Some(65_533));
        assert_eq!(ports.take(|port| port != 65_534), Some(65_535));
        assert_eq!(ports.take(|port| port != 65_534), None);
        ports.give_back(65_535);
        assert_eq!(ports.take(|port| port != 65_534), Some(65_535));
        assert_eq!(ports.take(|_| true), Some(65_534));
        assert_eq!(ports.take(|_| true), None);
        ports.give_back(65_535);
        ports.give_back(65_533);
        assert_eq!(ports.take(|_| true), Some(65_535));
    }

    #[test]
    fn a_reservation_is_lent_once_and_kept_again() {
        let mut listeners = Listeners::new(&(10..=20), FlowHash::new(1));
        let id = listeners
            .add(None, Room::default(), true, Owner::default())
            .unwrap();
        assert!(listeners.lend(id.port) && !listeners.lend(id.port));
        assert!(listeners.keep(id) && listeners.lend(id.port));
        assert_eq!(
            listeners.remove(id).map(|listener| listener.reservation),
            Some(Reservation::Lent)
        );
        assert!(!listeners.keep(id) && listeners.remove(id).is_none());
    }
}

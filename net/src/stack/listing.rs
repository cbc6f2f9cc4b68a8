//! What is in use, for the console.

use super::Stack;

/// Connections, and listeners, that are listed on the console: a line takes
/// several milliseconds there.
const MOST_LISTED: usize = 256;

impl Stack {
    /// Visits the counters that say what is in use now.
    pub fn resting(&self, visit: &mut dyn FnMut(&str, u64)) {
        visit(
            "rest.socket_bytes_taken",
            self.flows.budget().taken() as u64,
        );
        visit("rest.socket_bytes_left", self.flows.budget().left() as u64);
        visit("rest.buffers_free", self.reassembly.free() as u64);
        visit("rest.flows", self.flows.len() as u64);
        visit("rest.time_wait", self.time_wait.len() as u64);
        visit("rest.udp_sockets", self.udp.len() as u64);
        visit("rest.listeners", self.listeners.len() as u64);
    }

    /// Visits the sockets in use, one line each.
    pub fn sockets(&self, visit: &mut dyn FnMut(core::fmt::Arguments<'_>)) {
        let ports = self.listeners.ports();
        for port in ports.iter().take(MOST_LISTED) {
            visit(format_args!("tcp *:{port} LISTEN"));
        }
        if let Some(more @ 1..) = ports.len().checked_sub(MOST_LISTED) {
            visit(format_args!("and {more} more listeners"));
        }
        for (_, flow) in self.flows.iter().take(MOST_LISTED) {
            let (socket, name) = (flow.socket(), flow.tuple);
            visit(format_args!(
                "tcp {}:{} {}:{} {} received {} to send {}",
                name.local,
                name.local_port,
                name.remote,
                name.remote_port,
                socket.state(),
                socket.recv_queue(),
                socket.send_queue(),
            ));
        }
        if let Some(more @ 1..) = self.flows.len().checked_sub(MOST_LISTED) {
            visit(format_args!("and {more} more connections"));
        }
        for socket in self.udp.iter() {
            let (port, socket) = (socket.port(), &socket.socket);
            visit(format_args!(
                "udp *:{port} received {} to send {}",
                socket.recv_queue(),
                socket.send_queue(),
            ));
        }
    }
}

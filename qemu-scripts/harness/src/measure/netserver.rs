//! This machine's own netserver.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::network::{CONTROL_PORT, Network};
use crate::process::Running;

const TIMEOUT: Duration = Duration::from_secs(10);

/// A netserver that runs; ended when it is dropped.
#[derive(Debug)]
pub struct Netserver(Running);

impl Netserver {
    /// Starts it on this machine's side of `network`, at the usual port of all its
    /// addresses, and waits until it listens.
    pub fn start(network: &Network) -> Result<Self> {
        let mut command = network.command("netserver");
        command
            .args(["-D", "-N", "-4", "-p", &CONTROL_PORT.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let running = Running::start(&mut command)
            .context("netserver is needed: it is in Debian's package netperf")?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, CONTROL_PORT));
        let deadline = Instant::now() + TIMEOUT;
        while network.enter(|| TcpStream::connect(address))?.is_err() {
            ensure!(Instant::now() < deadline, "netserver does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(Self(running))
    }

    /// Ends it.
    pub fn end(mut self) -> Result<()> {
        self.0.terminate(TIMEOUT)?;
        Ok(())
    }
}

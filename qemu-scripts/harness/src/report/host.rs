//! What the report says of this end: what can explain a figure, and nothing that says
//! whose machine it is.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::machine::repository;
use crate::measure::{netperf_version, now};
use crate::process;

const TIMEOUT: Duration = Duration::from_secs(10);

/// When, and with what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// In UTC, as RFC 3339 has it.
    pub date: String,
    /// The commit that the harness was built from, or its version.
    pub uniperf: String,
    /// netperf's version, or why it is not known.
    pub netperf: String,
    /// This machine's kernel.
    pub kernel: String,
    /// The network interface that the appliance is reached by.
    pub interface: String,
}

impl Host {
    /// Looks around. What cannot be found out is said in its place.
    pub fn look(address: IpAddr) -> Result<Self> {
        let or_why = |found: Result<String>| found.unwrap_or_else(|why| format!("unknown ({why})"));
        Ok(Self {
            date: now()?,
            uniperf: commit()
                .unwrap_or_else(|_| format!("{}, of no git clone", env!("CARGO_PKG_VERSION"))),
            netperf: or_why(netperf_version()),
            kernel: or_why(kernel()),
            interface: or_why(interface(address)),
        })
    }

    /// `PREFIX-YYYY-MM-DD-HHMM.txt`.
    pub fn file_name(&self, prefix: &str) -> String {
        let part = |range| self.date.get(range).unwrap_or_default();
        let (day, hour, minute) = (part(0..10), part(11..13), part(14..16));
        format!("{prefix}-{day}-{hour}{minute}.txt")
    }

    /// A line for each.
    pub fn render(&self) -> String {
        format!(
            "date             {}\n\
             uniperf here     {}\n\
             netperf here     {}\n\
             kernel here      {}\n\
             interface here   {}\n",
            self.date, self.uniperf, self.netperf, self.kernel, self.interface
        )
    }
}

fn commit() -> Result<String> {
    let mut git = Command::new("git");
    git.arg("-C").arg(repository());
    git.args(["describe", "--always", "--tags", "--dirty", "--abbrev=12"]);
    let output = process::run(&mut git, TIMEOUT)?.success()?;
    Ok(output.stdout.trim().to_owned())
}

fn kernel() -> Result<String> {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease")?;
    Ok(format!("Linux {}", release.trim()))
}

/// Driver, speed and MTU of the interface that `address` is reached by.
fn interface(address: IpAddr) -> Result<String> {
    // No datagram is sent: connecting one's socket only asks for the route.
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    socket
        .connect(SocketAddr::new(address, 9))
        .context("no route")?;
    let own = socket.local_addr()?.ip();
    let name = nix::ifaddrs::getifaddrs()?
        .find(|interface| {
            let address = interface.address.as_ref();
            let address = address.and_then(|address| address.as_sockaddr_in());
            address.is_some_and(|address| IpAddr::V4(address.ip()) == own)
        })
        .context("no interface")?
        .interface_name;
    let folder = Path::new("/sys/class/net").join(name);
    let text = |file: &str| {
        let text = std::fs::read_to_string(folder.join(file)).ok()?;
        Some(text.trim().to_owned())
    };
    let driver = std::fs::read_link(folder.join("device/driver")).ok();
    let driver = driver.and_then(|path| Some(path.file_name()?.to_str()?.to_owned()));
    let or_unknown = |text: Option<String>| text.unwrap_or_else(|| "unknown".into());
    Ok(format!(
        "driver {}, {} Mbit/s, MTU {}",
        or_unknown(driver),
        or_unknown(text("speed")),
        or_unknown(text("mtu"))
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_called_by_the_time() {
        let mut host = Host::look([127, 0, 0, 1].into()).unwrap();
        host.date = "2026-12-01T06:48:50Z".into();
        assert_eq!(
            host.file_name("uniperf-report"),
            "uniperf-report-2026-12-01-0648.txt"
        );
        assert!(host.kernel.starts_with("Linux "), "{host:?}");
        assert!(host.interface.ends_with("MTU 65536"), "{host:?}");
        assert_eq!(host.render().lines().count(), 5);
    }
}

//! dnsmasq on a tap: a DHCP server, and a TFTP server for machines that boot from the
//! network.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::folder::Folder;
use crate::namespace::Namespace;
use crate::process::{Log, Running};

/// What the DHCP server offers.
#[derive(Clone, Debug)]
pub struct DhcpOptions {
    /// For how long an address is lent; dnsmasq knows no less than two minutes.
    pub lease: Duration,
    /// After how long the client is told to ask for more of it.
    pub renewal: Option<Duration>,
    /// What a machine that boots from the network is told to boot.
    pub boot: Option<BootOffer>,
}

/// What a machine that boots from the network is told to boot, and the folder that
/// TFTP serves.
#[derive(Clone, Debug)]
pub struct BootOffer {
    /// The folder.
    pub folder: PathBuf,
    /// A file in it, or where `http` an address.
    pub file: String,
    /// Whether it is for firmware that boots by HTTP (UEFI 2.10, 24.7.2), and no
    /// file is offered by TFTP.
    pub http: bool,
}

impl BootOffer {
    /// dnsmasq's options for it.
    fn dnsmasq_options(&self) -> Vec<String> {
        let Self { folder, file, http } = self;
        if !http {
            return vec![
                "--enable-tftp".into(),
                format!("--tftp-root={}", folder.display()),
                format!("--dhcp-boot={file}"),
            ];
        }
        // The firmware takes an offer only where the server calls itself by the
        // same name as it did.
        vec![
            "--dhcp-vendorclass=set:http,HTTPClient".into(),
            "--dhcp-option-force=tag:http,option:vendor-class,HTTPClient".into(),
            format!("--dhcp-boot=tag:http,{file}"),
        ]
    }

    /// The same for QEMU's user network.
    pub(crate) fn user_options(&self) -> Result<String> {
        ensure!(!self.http, "QEMU's user network has no HTTP server");
        let folder = self.folder.display().to_string().replace(',', ",,");
        Ok(format!(",tftp={folder},bootfile={}", self.file))
    }
}

impl Default for DhcpOptions {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(3600),
            renewal: None,
            boot: None,
        }
    }
}

/// dnsmasq as a DHCP server for 10.77.0.50 to 10.77.0.99 on `tap0`.
#[derive(Debug)]
pub struct DhcpServer {
    log: Log,
    _running: Running,
    _folder: Folder,
}

impl DhcpServer {
    pub(crate) fn start(namespace: &Namespace, options: &DhcpOptions) -> Result<Self> {
        let folder = Folder::new()?;
        let leases = folder.path().join("leases");
        let mut command = Command::new("dnsmasq");
        command
            .args(["--conf-file=/dev/null", "--no-daemon", "--user=root"])
            .args(["--port=0", "--no-resolv", "--no-hosts", "--no-ping"])
            .args(["--interface=tap0", "--bind-interfaces", "--log-dhcp"])
            .args(["--dhcp-authoritative"])
            .arg(format!("--dhcp-leasefile={}", leases.display()))
            .arg("--pid-file")
            .arg(format!(
                "--dhcp-range=10.77.0.50,10.77.0.99,255.255.255.0,{}",
                options.lease.as_secs()
            ));
        if let Some(renewal) = options.renewal {
            command.arg(format!("--dhcp-option=option:T1,{}", renewal.as_secs()));
        }
        if let Some(boot) = &options.boot {
            command.args(boot.dnsmasq_options());
        }
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(Stdio::piped());
        namespace.hold(&mut command);
        let mut running = Running::start(&mut command)
            .context("a DHCP server is needed: install Debian's dnsmasq-base")?;
        let stderr = running.child().stderr.take().context("no output")?;
        let log = Log::follow(stderr);
        log.wait_for(0, Duration::from_secs(10), "DHCP server", |line| {
            line.contains("DHCP, IP range")
        })
        .with_context(|| log.text())?;
        Ok(Self {
            log,
            _running: running,
            _folder: folder,
        })
    }

    /// What it says of each message.
    pub fn log(&self) -> &Log {
        &self.log
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(http: bool) -> BootOffer {
        BootOffer {
            folder: "/tmp/a,b".into(),
            file: "boot.ipxe".into(),
            http,
        }
    }

    #[test]
    fn the_user_network_takes_folders_with_commas_but_no_http() {
        let options = offer(false).user_options().unwrap();
        assert_eq!(options, ",tftp=/tmp/a,,b,bootfile=boot.ipxe");
        assert!(offer(true).user_options().is_err());
    }

    #[test]
    fn a_file_for_http_is_not_offered_by_tftp() {
        let options = offer(true).dnsmasq_options().join(" ");
        assert!(!options.contains("tftp"), "{options}");
    }
}

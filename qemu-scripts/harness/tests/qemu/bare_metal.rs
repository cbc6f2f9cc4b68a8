//! docs/bare-metal.md, carried out as it stands there: its files and commands, real
//! daemons and firmware, and QEMU's machines as the hosts.

use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;
use uniperf_harness::process::{self, Log, Running};
use uniperf_harness::recipe::{self, Action, Step};
use uniperf_harness::{
    Appliance, BootDevice, Firmware, FirmwareBoot, Image, Machine, Network, Ready, linux_guest,
    media, repository,
};

/// From power-on to ready, the loaders' own time-outs included.
const BOOT_TIMEOUT: Duration = Duration::from_secs(120);
const STEP_TIMEOUT: Duration = Duration::from_secs(30);
/// The address of the appliance in the document, where DHCP gives it.
const ADDRESS: &str = "10.77.0.50";

fn page(heading: &str, choice: &str) -> Vec<Step> {
    let document = fs::read_to_string(repository().join("docs/bare-metal.md")).unwrap();
    let mut steps = recipe::steps(&document, heading).unwrap();
    steps.retain(|step| step.with.as_deref().is_none_or(|with| with == choice));
    steps
}

fn takes_place(step: &Step, place: &str) -> bool {
    step.action == Action::Run(place.to_owned())
}

/// The server of a page: its folders below one of the test's, and its daemons.
struct Server {
    root: TempDir,
    daemons: Vec<(Running, Log)>,
}

impl Server {
    /// Does what the server's steps say, in the network's namespace.
    fn set_up(steps: &[Step], network: &mut Network) -> Self {
        network.as_tap_mut().unwrap().tap(0).unwrap();
        let root = tempfile::tempdir().unwrap();
        // TFTP servers give up their rights before they read.
        fs::set_permissions(root.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let mut server = Self {
            root,
            daemons: Vec::new(),
        };
        for folder in ["var/lib/dhcp", "run"] {
            fs::create_dir_all(server.root.path().join(folder)).unwrap();
        }
        for step in steps {
            server.take(step, network);
        }
        server
    }

    fn take(&mut self, step: &Step, network: &Network) {
        match &step.action {
            Action::File(path) => {
                let path = PathBuf::from(self.placed(path));
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, self.placed(&step.text)).unwrap();
            }
            Action::Run(place) if place == "server" => {
                let mut shell = self.shell(step, network);
                process::run(&mut shell, STEP_TIMEOUT)
                    .unwrap()
                    .success()
                    .unwrap();
            }
            Action::Run(place) if place == "daemon" => self.start(step, network),
            Action::Run(_) => {}
        }
    }

    fn start(&mut self, step: &Step, network: &Network) {
        // All that it prints comes through one pipe.
        let (reader, writer) = std::io::pipe().unwrap();
        let mut shell = self.shell(step, network);
        shell.stdin(Stdio::null());
        shell.stdout(writer.try_clone().unwrap()).stderr(writer);
        let running = Running::start(&mut shell).unwrap();
        drop(shell);
        let log = Log::follow(Box::new(reader) as Box<dyn Read + Send>);
        if let Some(until) = &step.until {
            let wait = log.wait_for(0, STEP_TIMEOUT, until, |line| line.contains(until));
            wait.unwrap_or_else(|error| panic!("{error}\n{}", log.text()));
        }
        self.daemons.push((running, log));
    }

    fn shell(&self, step: &Step, network: &Network) -> Command {
        let mut shell = network.command("bash");
        shell.args(["-eu", "-c", &self.placed(&step.text)]);
        for variable in ["KEA_PIDFILE_DIR", "KEA_LOCKFILE_DIR"] {
            shell.env(variable, self.root.path().join("run"));
        }
        shell
    }

    /// The document's text with the test's places in it.
    fn placed(&self, text: &str) -> String {
        let root = self.root.path().display();
        let image = Image::built().unwrap();
        let images = image.path().parent().unwrap().display().to_string();
        // What dnsmasq and dhcpd note down goes to the test's folder as well.
        let dnsmasq = format!(
            "exec dnsmasq --user=root --dhcp-leasefile={root}/run/leases \
             --pid-file={root}/run/dnsmasq"
        );
        let mut text = text.replace("dnsmasq --no-daemon", &format!("{dnsmasq} --no-daemon"));
        for (here, there) in [
            ("target/image", images),
            ("/srv/", format!("{root}/srv/")),
            ("/etc/", format!("{root}/etc/")),
            ("/var/lib/dhcp/", format!("{root}/var/lib/dhcp/")),
            ("-lf ", format!("-pf {root}/run/dhcpd -lf ")),
            ("eth1", "tap0".to_owned()),
        ] {
            text = text.replace(here, &there);
        }
        text
    }

    fn logs(&self) -> String {
        self.daemons
            .iter()
            .map(|(_, log)| log.text() + "\n")
            .collect()
    }
}

/// Runs the page's netperf against what is ready, and shows its table.
fn netperf(steps: &[Step], appliance: &Appliance, ready: Ready) {
    let commands: Vec<&Step> = steps
        .iter()
        .filter(|step| takes_place(step, "netperf"))
        .collect();
    assert_eq!(commands.len(), 1, "a page has one netperf");
    let text = commands[0]
        .text
        .replace(ADDRESS, &ready.address.to_string());
    let mut shell = appliance.network().command("bash");
    shell.args(["-eu", "-c", &text]);
    let finished = process::run(&mut shell, STEP_TIMEOUT)
        .unwrap()
        .success()
        .unwrap();
    println!("{text}{}", finished.stdout);
    assert!(finished.stdout.contains("Trans."), "no table");
}

/// A host that firmware boots from the network.
fn from_network(heading: &str, choice: &str, start: &FirmwareBoot) {
    let steps = page(heading, choice);
    let mut network = Network::tap().unwrap();
    let server = Server::set_up(&steps, &mut network);
    let machine = Machine {
        memory: 256,
        ..Machine::default()
    };
    let mut appliance = Appliance::start_by_firmware(start, &machine, network).unwrap();
    let ready = appliance
        .ready(BOOT_TIMEOUT)
        .unwrap_or_else(|error| panic!("{error:#}\n{}", server.logs()));
    netperf(&steps, &appliance, ready);
    assert!(appliance.power_off().unwrap().success());
}

#[test]
fn dnsmasq_and_ipxe_on_a_bios() {
    let start = FirmwareBoot::new(Firmware::Bios, BootDevice::Network);
    from_network("## dnsmasq and iPXE", "", &start);
}

/// The firmware's own PXE is told to load iPXE first.
#[test]
fn dnsmasq_and_ipxe_on_uefi() {
    let start = FirmwareBoot::new(Firmware::Uefi, BootDevice::NetworkOfFirmware);
    from_network("## dnsmasq and iPXE", "", &start);
}

#[test]
fn kea_and_pxelinux() {
    let start = FirmwareBoot::new(Firmware::Bios, BootDevice::Network);
    from_network("## Kea or ISC dhcpd, and PXELINUX", "kea", &start);
}

#[test]
fn dhcpd_and_pxelinux() {
    let start = FirmwareBoot::new(Firmware::Bios, BootDevice::Network);
    from_network("## Kea or ISC dhcpd, and PXELINUX", "dhcpd", &start);
}

#[test]
fn uefi_http_boot() {
    let start = FirmwareBoot {
        http_only: true,
        ..FirmwareBoot::new(Firmware::Uefi, BootDevice::NetworkOfFirmware)
    };
    from_network("## UEFI HTTP boot", "", &start);
}

/// A disk whose GRUB has the page's menu entry.
fn from_grub(firmware: Firmware) {
    let steps = page("## GRUB on an existing Linux host", "");
    let is_file = |step: &&Step| matches!(step.action, Action::File(_));
    let entry = &steps.iter().find(is_file).unwrap().text;
    let folder = tempfile::tempdir().unwrap();
    let disk = folder.path().join("disk");
    let configuration = format!("set timeout=0\n{entry}");
    media::make_grub_disk(&Image::built().unwrap(), &configuration, &disk).unwrap();
    let start = FirmwareBoot::new(firmware, BootDevice::Disk(disk));
    let machine = Machine {
        memory: 256,
        ..Machine::default()
    };
    let network = Network::tap().unwrap();
    let mut appliance = Appliance::start_by_firmware(&start, &machine, network).unwrap();
    let ready = appliance.ready(BOOT_TIMEOUT).unwrap();
    netperf(&steps, &appliance, ready);
    assert!(appliance.power_off().unwrap().success());
}

#[test]
fn grub_on_a_bios() {
    from_grub(Firmware::Bios);
}

#[test]
fn grub_on_uefi() {
    from_grub(Firmware::Uefi);
}

#[test]
fn kexec_from_a_running_linux() {
    let steps = page("## kexec on a host that you only reach by ssh", "");
    let folder = tempfile::tempdir().unwrap();
    let mut guest = linux_with_kexec(folder.path());
    let from = guest.console().len();
    let typed: Vec<&Step> = steps
        .iter()
        .filter(|step| takes_place(step, "host"))
        .collect();
    assert_eq!(typed.len(), 1);
    for line in typed[0].text.lines() {
        guest.type_line(&line.replace("/root/", "/image/")).unwrap();
    }
    let ready = guest.ready_after(from, BOOT_TIMEOUT).unwrap();
    netperf(&steps, &guest, ready);
    assert!(guest.power_off().unwrap().success());
}

fn linux_with_kexec(folder: &Path) -> Appliance {
    let machine = Machine {
        memory: 512,
        ..Machine::default()
    };
    let (kernel, machine) = linux_guest::prepare(machine).unwrap();
    let image = Image::built().unwrap();
    let machine = linux_guest::with_kexec(machine, image.path(), &folder.join("initrd")).unwrap();
    Appliance::boot(&kernel, &machine, Network::tap().unwrap())
        .unwrap()
        .0
}

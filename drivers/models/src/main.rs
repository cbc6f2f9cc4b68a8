//! `nic-model`: a device model that QEMU plugs in as a PCI device.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{ArgGroup, Parser};

use uniperf_nic_models::forcedeth::{Forcedeth, Generation};
use uniperf_nic_models::link::{Datagram, Stream, Tap, Unplugged, Wire};
use uniperf_nic_models::myri10ge::{Myri10ge, Variant};
use uniperf_nic_models::server::{self, Options};

/// A NIC that QEMU does not emulate, as a vfio-user device.
///
/// QEMU 10.1 or newer plugs it in: its memory has to be shared, as by
///   -object memory-backend-memfd,id=mem,size=256M,share=on -machine memory-backend=mem
///   -device '{"driver":"vfio-user-pci","socket":{"type":"unix","path":"SOCKET"}}'
/// It prints "nic-model: ready" when QEMU may connect, and ends when QEMU does.
#[derive(Parser, Debug)]
#[command(name = "nic-model", verbatim_doc_comment)]
#[command(group(ArgGroup::new("cable").args(["tap", "dgram", "stream"])))]
struct Arguments {
    /// forcedeth[:GENERATION], GENERATION being nforce2, nforce3, ck804, mcp51, mcp55
    /// (the default), mcp61 or mcp79; or myri10ge[:VARIANT], VARIANT being aligned (the
    /// default), unaligned (the host's completions are not aligned) or running (the card
    /// runs firmware that its driver can adopt)
    #[arg(value_parser = parse_model, verbatim_doc_comment)]
    device: Model,
    /// The socket to make for QEMU
    #[arg(long)]
    socket: PathBuf,
    /// The station address
    #[arg(long, default_value = "52:54:00:12:34:56", value_parser = parse_mac)]
    mac: [u8; 6],
    /// The cable ends in this tap of the current network namespace
    #[arg(long, value_name = "NAME")]
    tap: Option<String>,
    /// The cable is a Unix datagram socket of its own and a peer's, as QEMU's
    /// `-netdev dgram` has them
    #[arg(long, value_name = "OWN,PEER")]
    dgram: Option<String>,
    /// The cable is a Unix stream socket to connect to, as that of QEMU's
    /// `-netdev stream,server=on`
    #[arg(long, value_name = "PATH")]
    stream: Option<PathBuf>,
    /// A socket for commands: try `help` there
    #[arg(long)]
    control: Option<PathBuf>,
}

/// A device that there is a model of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Model {
    Forcedeth(Generation),
    Myri10ge(Variant),
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("nic-model: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<()> {
    let options = Options {
        socket: arguments.socket.clone(),
        control: arguments.control.clone(),
    };
    let cable = cable(arguments)?;
    let ready = || println!("nic-model: ready");
    match arguments.device {
        Model::Forcedeth(generation) => {
            let nic = Forcedeth::new(generation, arguments.mac);
            server::serve(nic, cable, &options, ready)
        }
        Model::Myri10ge(variant) => {
            let nic = Myri10ge::new(variant, arguments.mac);
            server::serve(nic, cable, &options, ready)
        }
    }
}

fn parse_model(name: &str) -> Result<Model, String> {
    let (kind, variant) = match name.split_once(':') {
        Some((kind, variant)) => (kind, Some(variant)),
        None => (name, None),
    };
    match kind {
        "forcedeth" => variant.unwrap_or("mcp55").parse().map(Model::Forcedeth),
        "myri10ge" => variant.unwrap_or("aligned").parse().map(Model::Myri10ge),
        _ => Err(format!(
            "there is no model '{kind}': it is forcedeth or myri10ge"
        )),
    }
}

fn cable(arguments: &Arguments) -> Result<Box<dyn Wire>> {
    if let Some(name) = &arguments.tap {
        let tap = Tap::open(name).with_context(|| format!("cannot open the tap {name}"))?;
        return Ok(Box::new(tap));
    }
    if let Some(paths) = &arguments.dgram {
        let (own, peer) = paths
            .split_once(',')
            .context("--dgram takes two paths with a comma between")?;
        let socket = Datagram::bind(own.as_ref(), peer.as_ref())
            .with_context(|| format!("cannot bind {own}"))?;
        return Ok(Box::new(socket));
    }
    if let Some(path) = &arguments.stream {
        let socket = Stream::connect(path)
            .with_context(|| format!("cannot connect to {}", path.display()))?;
        return Ok(Box::new(socket));
    }
    Ok(Box::new(Unplugged::default()))
}

fn parse_mac(text: &str) -> Result<[u8; 6], String> {
    let bytes: Option<Vec<u8>> = text
        .split(':')
        .map(|part| u8::from_str_radix(part, 16).ok())
        .collect();
    let mac: Option<[u8; 6]> = bytes.and_then(|bytes| bytes.try_into().ok());
    match mac {
        Some(mac) if mac[0] & 1 == 0 && mac != [0; 6] => Ok(mac),
        Some(_) => Err(format!("{text} is no station's address")),
        None => Err(format!("{text} is no address such as 52:54:00:12:34:56")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_and_addresses_are_read_and_nonsense_is_not() {
        for (name, model) in [
            ("forcedeth", Model::Forcedeth(Generation::Mcp55)),
            ("forcedeth:ck804", Model::Forcedeth(Generation::Ck804)),
            ("myri10ge", Model::Myri10ge(Variant::Aligned)),
            ("myri10ge:running", Model::Myri10ge(Variant::Running)),
        ] {
            assert_eq!(parse_model(name), Ok(model));
        }
        for name in [
            "",
            "e1000",
            "forcedeth:",
            "forcedeth:mcp99",
            "myri10ge:mcp55",
        ] {
            assert!(parse_model(name).is_err(), "{name}");
        }
        assert_eq!(parse_mac("02:00:00:00:00:ff"), Ok([2, 0, 0, 0, 0, 0xff]));
        for mac in [
            "",
            "1:2:3",
            "03:00:00:00:00:00",
            "0:0:0:0:0:0",
            "02:00:00:00:00:00:00",
        ] {
            assert!(parse_mac(mac).is_err(), "{mac}");
        }
    }
}

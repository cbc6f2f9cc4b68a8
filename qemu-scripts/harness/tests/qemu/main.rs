//! The image in QEMU, driven by the system's own tools. `qemu-scripts/test` builds
//! the image before it runs these; taps and namespaces need root.

mod bad_peers;
mod bare_metal;
mod bench;
mod boot;
mod boot_paths;
mod commands;
mod console;
mod dhcp;
mod floods;
mod forcedeth;
mod forcedeth_judge;
mod hostile;
mod judge;
mod kexec;
mod linux;
mod loss;
mod many;
mod mtu;
mod myri10ge;
mod myri10ge_judge;
mod netperf;
mod nics;
mod report;
mod rig;
mod scenario;
mod streams;
mod wire;

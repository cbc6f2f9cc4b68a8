//! Makes the files that boot from the linked image.
//!
//! `uniperf.efi` is what nearly everything takes: its first page is at once a PE
//! header for UEFI, a setup header and 16-bit code for the Linux boot protocol, and
//! a multiboot2 header for GRUB; the image follows as it lies in memory.
//! `uniperf.elf` is for virtual machine monitors that start an ELF file by PVH, as
//! no file begins both with `MZ` and with ELF's magic number.

mod field;
mod linked;
mod linux;
mod multiboot2;
mod page;
mod pe;
mod pvh;
#[cfg(test)]
mod testing;

use std::env;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};

use linked::Linked;

fn main() -> Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [linked, folder] = &arguments[..] else {
        bail!("usage: uniperf-mkimage LINKED-IMAGE FOLDER");
    };
    let bytes = fs::read(linked).with_context(|| format!("cannot read {linked}"))?;
    let linked = Linked::read(&bytes).with_context(|| format!("{linked} is not the image"))?;
    let folder = Path::new(folder);
    fs::create_dir_all(folder)?;
    for (name, content) in [
        ("uniperf.efi", page::image(&linked)?),
        ("uniperf.elf", pvh::image(&linked)),
    ] {
        write(&folder.join(name), &content)?;
    }
    Ok(())
}

/// Replaces the file at `path` as a whole, and says its length and checksum.
fn write(path: &Path, content: &[u8]) -> Result<()> {
    let new = path.with_extension("new");
    fs::write(&new, content).with_context(|| format!("cannot write {}", new.display()))?;
    fs::rename(&new, path)?;
    let sum = Sha256::digest(content);
    let sum: String = sum.iter().map(|byte| format!("{byte:02x}")).collect();
    println!(
        "{:>9} bytes  sha256 {sum}  {}",
        content.len(),
        path.display()
    );
    Ok(())
}

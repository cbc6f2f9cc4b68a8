//! Hands the linker script to the linker when the image is built for the machine.

fn main() {
    println!("cargo:rerun-if-changed=src/link.ld");
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("none") {
        let folder = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets it");
        println!("cargo:rustc-link-arg-bins=-T{folder}/src/link.ld");
    }
}

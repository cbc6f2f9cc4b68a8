//! Boots the appliance in QEMU and runs real peers against it.

//! What the machine gives to the appliance.
#![cfg_attr(target_os = "none", no_std)]

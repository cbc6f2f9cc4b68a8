//! The appliance as its peer sees it: exchanges over a wire made of memory.

mod basics;

//! The arguments of `iso`.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;

use uniperf_harness::{Image, target_folder};

/// What to put on the medium.
#[derive(Args, Debug)]
pub struct IsoOptions {
    /// The image that it boots.
    #[arg(long, value_name = "FILE", env = "UNIPERF_IMAGE")]
    image: Option<PathBuf>,
    /// Its boot arguments; they can be edited on a stick.
    #[arg(long, value_name = "ARGS", allow_hyphen_values = true)]
    append: Vec<String>,
    /// The file to make: target/image/uniperf.iso.
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

impl IsoOptions {
    pub fn image(&self) -> Result<Image> {
        match &self.image {
            Some(path) => Image::at(path),
            None => Image::built(),
        }
    }

    pub fn arguments(&self) -> String {
        self.append.join(" ")
    }

    pub fn output(&self) -> PathBuf {
        let default = || target_folder().join("image/uniperf.iso");
        self.output.clone().unwrap_or_else(default)
    }
}

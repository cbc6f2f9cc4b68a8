//! `iso`: the image for CDs and USB sticks.

use std::process::ExitCode;

use anyhow::Result;

use crate::cli::IsoOptions;
use uniperf_harness::media;

/// Makes it beside its place and puts it there as a whole.
pub fn make(options: &IsoOptions) -> Result<ExitCode> {
    let path = options.output();
    let new = path.with_extension("iso.new");
    media::make_iso(&options.image()?, &options.arguments(), &new)?;
    std::fs::rename(&new, &path)?;
    Ok(ExitCode::SUCCESS)
}

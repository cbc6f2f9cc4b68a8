//! `uniperf-qemu`: what `qemu-scripts/boot` and `qemu-scripts/run` become once the
//! image is built.

mod cli;
mod iso;
mod pxe;
mod run;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let result = match cli::Cli::parse().command {
        cli::Command::Boot(options) => run::boot(&options),
        cli::Command::Run(options) => run::run(&options),
        cli::Command::Bench(options) => run::bench(&options),
        cli::Command::Ping(options) => run::ping(&options),
        cli::Command::Crowd(options) => run::crowd(&options),
        cli::Command::Linux(options) => run::linux(&options),
        cli::Command::Pxe(options) => pxe::run(&options),
        cli::Command::Iso(options) => iso::make(&options),
        cli::Command::Report(options) => run::report(&options),
        cli::Command::Scenario(scenario) => run::scenario(&scenario),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            eprintln!("uniperf: {error:#}");
            ExitCode::FAILURE
        }
    }
}

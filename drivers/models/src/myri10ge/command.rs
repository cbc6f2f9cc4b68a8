//! Lines that a person or a test gives a running model.

use std::fmt::Write;
use std::time::Duration;

use super::{Myri10ge, RxFault};
use crate::device::Host;

const USAGE: &str = "\
statistics                        what it has done
complaints [clear]                what the guest did wrong
state                             what runs on the card, and what it was told
link up | down                    the cable
flap MS                           the link is lost for MS milliseconds
fault rx KIND [N]                 the next N frames are lost: crc, phy, overrun, overflow, runt
fault stuck [on|off]              nothing is sent until the firmware is reset
fault silent [on|off]             commands are not answered
fault dma [N]                     the next N DMA tests fail
fault handoff [N]                 the next N hand-offs are not answered
fault tags N                      N reads of memory have never ended
fault lost [N]                    the next N interrupts are lost
fault late MS [N]                 the next N interrupts are MS milliseconds late
fault parity                      a parity error: the card starts anew
fault master [MS]                 bus mastering is off, for MS milliseconds or until the
                                  guest sets it anew";

impl Myri10ge {
    pub(super) fn run_command(
        &mut self,
        host: &mut Host,
        words: &[&str],
    ) -> Result<String, String> {
        match words {
            ["help"] => return Ok(USAGE.into()),
            ["statistics"] => return Ok(self.list_statistics(host)),
            ["state"] => {
                return Ok(format!(
                    "{:?}\n{:?}\n{:?}\n{:?}",
                    self.mcp, self.parameters, self.status, self.faults
                ));
            }
            ["complaints"] => {
                let mut answer = String::new();
                for (what, count) in host.complaints.kinds() {
                    let _ = writeln!(answer, "{count} {what}");
                }
                return Ok(answer);
            }
            ["complaints", "clear"] => host.complaints.clear(),
            ["link", "up"] => self.set_link(true, host),
            ["link", "down"] => self.set_link(false, host),
            ["flap", time] => self.flap_link(milliseconds(time)?, host),
            ["fault", fault @ ..] => self.run_fault(host, fault)?,
            _ => return Err(format!("'{}' is no command: see help", words.join(" "))),
        }
        Ok(String::new())
    }

    fn list_statistics(&self, host: &Host) -> String {
        let mut answer = String::new();
        for (name, value) in self.totals.list() {
            let _ = writeln!(answer, "{name} {value}");
        }
        for (name, value) in self.dropped.list() {
            let _ = writeln!(answer, "{name} {value}");
        }
        let _ = writeln!(answer, "interrupts_raised {}", host.interrupts.raised());
        let _ = writeln!(answer, "interrupts_lost {}", host.interrupts.lost());
        let _ = writeln!(answer, "dma_refused {}", host.dma.refused());
        let _ = writeln!(answer, "complaints {}", host.complaints.total());
        answer
    }

    fn run_fault(&mut self, host: &mut Host, words: &[&str]) -> Result<(), String> {
        match words {
            ["rx", kind, count @ ..] => {
                let kind = match *kind {
                    "crc" => RxFault::Crc,
                    "phy" => RxFault::Phy,
                    "overrun" => RxFault::Overrun,
                    "overflow" => RxFault::Overflow,
                    "runt" => RxFault::Runt,
                    _ => return Err(format!("'{kind}' is no error of a received frame")),
                };
                self.faults.receive = Some((kind, how_many(count)?));
            }
            ["stuck", on @ ..] => {
                self.faults.tx_stuck = is_on(on)?;
                self.transmit(host);
            }
            ["silent", on @ ..] => self.faults.is_silent = is_on(on)?,
            ["dma", count @ ..] => self.faults.dma_tests = how_many(count)?,
            ["handoff", count @ ..] => self.faults.hand_offs = how_many(count)?,
            ["tags", count] => {
                self.faults.lost_tags = number(count)?.min(15);
                self.status.news(host.now);
            }
            ["lost", count @ ..] => host.interrupts.lose(how_many(count)?),
            ["late", time, count @ ..] => {
                host.interrupts.delay(milliseconds(time)?, how_many(count)?);
            }
            ["parity"] => self.reboot(host),
            ["master"] => self.config.clear_master(),
            ["master", time] => {
                self.faults.bus_master_back_at = Some(host.now + milliseconds(time)?);
                self.faults.bus_master_off = true;
            }
            _ => return Err(format!("'{}' is no fault: see help", words.join(" "))),
        }
        Ok(())
    }
}

fn number(word: &str) -> Result<u32, String> {
    word.parse()
        .map_err(|_| format!("'{word}' is no number of this size"))
}

fn milliseconds(word: &str) -> Result<Duration, String> {
    Ok(Duration::from_millis(number(word)?.into()))
}

fn how_many(words: &[&str]) -> Result<u32, String> {
    match words {
        [] => Ok(1),
        [count] => number(count),
        [_, more @ ..] => Err(format!("what is '{}'?", more.join(" "))),
    }
}

fn is_on(words: &[&str]) -> Result<bool, String> {
    match words {
        [] | ["on"] => Ok(true),
        ["off"] => Ok(false),
        _ => Err(format!("'{}' is neither on nor off", words.join(" "))),
    }
}

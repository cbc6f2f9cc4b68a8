//! Lines that a person or a test gives a running model.

use std::fmt::Write;
use std::time::Duration;

use super::Forcedeth;
use super::faults::{RxFault, TxFault};
use super::registers::{IRQ_MASK, IRQ_STATUS, MSI_IRQ_MASK};
use crate::device::Host;

const USAGE: &str = "\
statistics                        what it has done
complaints [clear]                what the guest did wrong
interrupts                        causes, masks and how interrupts are raised
link up | down | MBPS full|half   the partner at the other end of the cable
flap MS                           the link is lost for MS milliseconds
fault rx KIND [N]                 the next N frames come with an error: crc, overflow,
                                  symbol, length, framing, invalid
fault tx KIND [N]                 the next N frames fail: underflow, carrier, collision,
                                  retry
fault overrun [N]                 the next N frames find no room
fault stuck [on|off]              the transmitter stands still until it is stopped
fault busy [on|off]               the transmitter never ends
fault lost [N]                    the next N interrupts are lost
fault late MS [N]                 the next N interrupts are MS milliseconds late
fault recover                     the rings are said to have gone wrong
fault mii [on|off]                the management interface hangs
fault phy [on|off]                no PHY answers
fault master [MS]                 bus mastering is off, for MS milliseconds or until the
                                  guest sets it anew";

impl Forcedeth {
    pub(super) fn run_command(
        &mut self,
        host: &mut Host,
        words: &[&str],
    ) -> Result<String, String> {
        match words {
            ["help"] => Ok(USAGE.into()),
            ["statistics"] => Ok(self.statistics(host)),
            ["interrupts"] => Ok(self.interrupt_state(host)),
            ["complaints"] => Ok(host
                .complaints
                .kinds()
                .map(|(what, count)| format!("{count} {what}\n"))
                .collect()),
            ["complaints", "clear"] => {
                host.complaints.clear();
                Ok(String::new())
            }
            ["link"] => Ok(self
                .link()
                .map_or_else(|| "down".into(), |mode| mode.to_string())),
            ["link", how @ ..] => {
                self.set_partner(how.join(" ").parse()?, host.now);
                Ok(String::new())
            }
            ["flap", time] => {
                self.flap_link(Duration::from_millis(number(time)?.into()), host.now);
                Ok(String::new())
            }
            ["fault", fault @ ..] => self.run_fault(host, fault).map(|()| String::new()),
            _ => Err(format!("'{}' is none of\n{USAGE}", words.join(" "))),
        }
    }

    fn statistics(&self, host: &Host) -> String {
        let mut text = String::new();
        let own = [
            ("interrupts", host.interrupts.raised()),
            ("interrupts_lost", host.interrupts.lost()),
            ("dma_refused", host.dma.refused()),
            ("wire_lost", host.wire.lost()),
            ("complaints", host.complaints.total()),
        ];
        for (name, value) in self.totals.list().into_iter().chain(own) {
            // A String takes all that is written.
            let _ = writeln!(text, "{name} {value}");
        }
        text
    }

    fn interrupt_state(&self, host: &Host) -> String {
        let timer = self.timer.map(|due| due.saturating_sub(host.now));
        format!(
            "status {:04x}, mask {:04x}, MSI mask {:x}, level {}, timer {timer:?}, now {:?}\n{:?}",
            self.get(IRQ_STATUS),
            self.get(IRQ_MASK),
            self.get(MSI_IRQ_MASK),
            self.msi_level,
            host.now,
            host.interrupts
        )
    }

    fn run_fault(&mut self, host: &mut Host, words: &[&str]) -> Result<(), String> {
        match words {
            ["rx", kind, count @ ..] => {
                let kind = match *kind {
                    "crc" => RxFault::Crc,
                    "overflow" => RxFault::Overflow,
                    "symbol" => RxFault::Symbol,
                    "length" => RxFault::Length,
                    "framing" => RxFault::Framing,
                    "invalid" => RxFault::Invalid,
                    _ => return Err(format!("'{kind}' is no error of a received frame")),
                };
                self.faults.receive = Some((kind, how_many(count)?));
            }
            ["tx", kind, count @ ..] => {
                let kind = match *kind {
                    "underflow" => TxFault::Underflow,
                    "carrier" => TxFault::Carrier,
                    "collision" => TxFault::LateCollision,
                    "retry" => TxFault::Retry,
                    _ => return Err(format!("'{kind}' is no error of a sent frame")),
                };
                self.faults.transmit = Some((kind, how_many(count)?));
            }
            ["overrun", count @ ..] => self.faults.overrun = how_many(count)?,
            ["stuck", on @ ..] => {
                self.faults.tx_stuck = is_on(on)?;
                self.transmit(host);
            }
            ["busy", on @ ..] => self.faults.tx_busy = is_on(on)?,
            ["lost", count @ ..] => host.interrupts.lose(how_many(count)?),
            ["late", time, count @ ..] => {
                let delay = Duration::from_millis(number(time)?.into());
                host.interrupts.delay(delay, how_many(count)?);
            }
            ["recover"] => self.raise_recover_error(),
            ["mii", on @ ..] => self.faults.mii_stuck = is_on(on)?,
            ["phy", on @ ..] => self.faults.phy_absent = is_on(on)?,
            ["master"] => self.config.clear_master(),
            ["master", time] => {
                let time = Duration::from_millis(number(time)?.into());
                self.faults.bus_master_off = true;
                self.faults.bus_master_back_at = Some(host.now + time);
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

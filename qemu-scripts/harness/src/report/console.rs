//! The appliance's serial console, by a serial port of this machine.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal, Read, Write};
use std::ops::RangeInclusive;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::termios::{
    BaudRate, ControlFlags, FlushArg, SetArg, SpecialCharacterIndices, cfmakeraw, cfsetspeed,
    tcflush, tcgetattr, tcsetattr,
};

use crate::appliance::read_console;
use crate::process::Log;

/// How often a question is asked: a port may lose what is typed.
const ATTEMPTS: usize = 2;
/// What the console says of a line that it does not understand.
const NOT_UNDERSTOOD: &str = "unknown command";
/// What bytes that are no text are shown as.
const GARBLED: char = char::REPLACEMENT_CHARACTER;

/// What the console is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// Whether somebody is there.
    Help,
    /// What the NIC's registers hold.
    Hardware,
    /// All counters.
    Counters,
}

impl Question {
    const ALL: [Self; 3] = [Self::Help, Self::Hardware, Self::Counters];

    /// What is typed.
    pub fn command(self) -> &'static str {
        match self {
            Self::Help => "help",
            Self::Hardware => "hardware",
            Self::Counters => "counters",
        }
    }

    /// The lines around its answer.
    fn frame(self) -> (&'static str, &'static str) {
        match self {
            Self::Help => ("commands:", "end of commands"),
            Self::Hardware => ("hardware:", "end of hardware"),
            Self::Counters => ("counters:", "end of counters"),
        }
    }
}

/// Why there is no answer from a console.
#[derive(Debug)]
pub enum ConsoleError {
    /// The device cannot be opened.
    Open(PathBuf, io::Error),
    /// It cannot be set to 115200 baud.
    Settings(PathBuf, Errno),
    /// It is the terminal that this runs on.
    OwnTerminal(PathBuf),
    /// What is typed does not go out.
    Write(PathBuf, io::Error),
    /// Nobody answers.
    Silent {
        /// The device.
        device: PathBuf,
        /// What was typed.
        command: &'static str,
        /// The last line that came, if any did.
        heard: Option<String>,
    },
    /// An answer began and did not end.
    Unfinished(&'static str),
}

impl fmt::Display for ConsoleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open(device, error) => {
                write!(f, "cannot open {}: {error}", device.display())?;
                match error.kind() {
                    io::ErrorKind::PermissionDenied => {
                        f.write_str(" (serial ports belong to the group dialout: be in it)")
                    }
                    _ => Ok(()),
                }
            }
            Self::Settings(device, error) => {
                write!(f, "{} takes no 115200 baud: {error}", device.display())
            }
            Self::OwnTerminal(device) => write!(
                f,
                "{} is the terminal that you are typing on, and no serial port",
                device.display()
            ),
            Self::Write(device, error) => {
                write!(f, "cannot write to {}: {error}", device.display())
            }
            Self::Silent {
                device,
                command,
                heard,
            } => {
                let device = device.display();
                write!(f, "no appliance answers `{command}` on {device}: ")?;
                match heard {
                    None => f.write_str("nothing came at all")?,
                    Some(line) if line.contains(GARBLED) => {
                        f.write_str("what came is garbled, so the speeds differ")?;
                    }
                    Some(line) => write!(f, "the last that came was \"{line}\"")?,
                }
                f.write_str(
                    ". Check that the appliance has said `ready` on its screen; that a \
                     null-modem cable is in both ports; that the appliance's console is that \
                     port, at 115200 baud (boot argument console=com1, com2 …); and that no \
                     other program, such as screen, minicom or a getty, has the port here open",
                )
            }
            Self::Unfinished(command) => write!(
                f,
                "the answer to `{command}` does not end: has the appliance stopped?"
            ),
        }
    }
}

impl std::error::Error for ConsoleError {}

/// A console that can be asked.
#[derive(Debug)]
pub struct Console {
    device: PathBuf,
    input: Port,
    log: Log,
    /// The lines of answers.
    answers: Vec<RangeInclusive<usize>>,
}

/// The two things that a console can be reached by.
#[derive(Debug)]
enum Port {
    File(File),
    Socket(UnixStream),
}

impl Port {
    fn try_clone(&self) -> io::Result<Self> {
        Ok(match self {
            Self::File(file) => Self::File(file.try_clone()?),
            Self::Socket(socket) => Self::Socket(socket.try_clone()?),
        })
    }
}

impl Read for Port {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::File(file) => file.read(buffer),
            Self::Socket(socket) => socket.read(buffer),
        }
    }
}

impl Write for Port {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::File(file) => file.write(bytes),
            Self::Socket(socket) => socket.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Console {
    /// Opens `device`: a serial port, which is set to 115200 baud, 8 bits, no parity and
    /// one stop bit; a pseudo-terminal or another file; or a Unix socket.
    pub fn open(device: &Path) -> Result<Self, ConsoleError> {
        let failed = |error| ConsoleError::Open(device.into(), error);
        let kind = device.metadata().map_err(failed)?.file_type();
        let input = match kind.is_socket() {
            true => Port::Socket(UnixStream::connect(device).map_err(failed)?),
            false => Port::File(open_file(device)?),
        };
        let output = input.try_clone().map_err(failed)?;
        Ok(Self {
            device: device.into(),
            input,
            log: read_console(output, None),
            answers: Vec::new(),
        })
    }

    /// Asks whether an appliance is there, waiting for `timeout` twice at the most.
    pub fn greet(&mut self, timeout: Duration) -> Result<(), ConsoleError> {
        // Ends what somebody may have begun to type.
        self.type_line("")?;
        self.ask(Question::Help, timeout).map(drop)
    }

    /// Asks, and returns the answer's lines, waiting for `timeout` twice at the most.
    pub fn ask(
        &mut self,
        question: Question,
        timeout: Duration,
    ) -> Result<Vec<String>, ConsoleError> {
        let (first, last) = question.frame();
        let command = question.command();
        let begun = |line: &str| line.trim() == first;
        let from = self.log.len();
        for _ in 0..ATTEMPTS {
            let asked = self.log.len();
            self.type_line(command)?;
            let heard = self.log.wait_for(asked, timeout, command, |line| {
                begun(line) || line.contains(NOT_UNDERSTOOD)
            });
            let Some((begin, _)) = heard.ok().filter(|(_, line)| begun(line)) else {
                continue;
            };
            let end = self
                .log
                .wait_for(begin, timeout, command, |line| line.trim() == last)
                .map_err(|_| ConsoleError::Unfinished(command))?
                .0;
            self.answers.push(begin..=end);
            let mut lines = self.log.since(begin);
            lines.truncate(end - begin + 1);
            return Ok(lines);
        }
        Err(ConsoleError::Silent {
            device: self.device.clone(),
            command,
            heard: self.log.since(from).pop(),
        })
    }

    /// What the console has said besides answers.
    pub fn messages(&self) -> Vec<String> {
        let is_typed = |line: &str| {
            let line = line.trim();
            line.is_empty() || Question::ALL.iter().any(|each| each.command() == line)
        };
        let lines = self.log.since(0).into_iter().enumerate();
        lines
            .filter(|(number, line)| {
                !is_typed(line) && !self.answers.iter().any(|answer| answer.contains(number))
            })
            .map(|(_, line)| line)
            .collect()
    }

    fn type_line(&mut self, line: &str) -> Result<(), ConsoleError> {
        self.input
            .write_all(format!("{line}\n").as_bytes())
            .map_err(|error| ConsoleError::Write(self.device.clone(), error))
    }
}

/// Opens a file, and sets it up where it is a serial port.
fn open_file(device: &Path) -> Result<File, ConsoleError> {
    let failed = |error| ConsoleError::Open(device.into(), error);
    // Without waiting for a modem's carrier, and without becoming this one's terminal.
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags((OFlag::O_NOCTTY | OFlag::O_NONBLOCK).bits())
        .open(device)
        .map_err(failed)?;
    if file.is_terminal() {
        if is_own_terminal(&file) {
            return Err(ConsoleError::OwnTerminal(device.into()));
        }
        set_up(&file).map_err(|error| ConsoleError::Settings(device.into(), error))?;
    }
    let flags = fcntl(&file, FcntlArg::F_GETFL).map_err(|error| failed(error.into()))?;
    let blocking = OFlag::from_bits_retain(flags).difference(OFlag::O_NONBLOCK);
    fcntl(&file, FcntlArg::F_SETFL(blocking)).map_err(|error| failed(error.into()))?;
    Ok(file)
}

fn is_own_terminal(file: &File) -> bool {
    let device = |file: &File| file.metadata().map(|metadata| metadata.rdev()).ok();
    let (stdin, stderr) = (io::stdin(), io::stderr());
    let own = [stdin.as_fd(), stderr.as_fd()];
    own.iter().filter(|fd| fd.is_terminal()).any(|fd| {
        let terminal = fd.try_clone_to_owned().map(File::from);
        terminal.is_ok_and(|terminal| device(&terminal) == device(file))
    })
}

/// 115200 baud, 8N1, no flow control, no translation of any byte.
fn set_up(file: &File) -> Result<(), Errno> {
    let mut settings = tcgetattr(file)?;
    cfmakeraw(&mut settings);
    cfsetspeed(&mut settings, BaudRate::B115200)?;
    settings
        .control_flags
        .remove(ControlFlags::CSTOPB | ControlFlags::PARENB | ControlFlags::CRTSCTS);
    settings
        .control_flags
        .insert(ControlFlags::CS8 | ControlFlags::CLOCAL | ControlFlags::CREAD);
    settings.control_chars[SpecialCharacterIndices::VMIN as usize] = 1;
    settings.control_chars[SpecialCharacterIndices::VTIME as usize] = 0;
    tcsetattr(file, SetArg::TCSANOW, &settings)?;
    // What came at another speed.
    tcflush(file, FlushArg::TCIOFLUSH)
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::os::unix::net::UnixListener;

    use nix::pty::openpty;

    use super::*;

    const SHORT: Duration = Duration::from_millis(200);
    const LONG: Duration = Duration::from_secs(10);

    /// Answers each line on `stream` with what `answer` makes of it.
    fn play(
        stream: impl Read + Write + Send + 'static,
        answer: impl Fn(usize, &str) -> String + Send + 'static,
    ) {
        std::thread::spawn(move || {
            let mut reader = BufReader::new(stream);
            let mut line = String::new();
            let mut number = 0;
            while reader.read_line(&mut line).is_ok_and(|read| read > 0) {
                let text = answer(number, line.trim());
                if reader.get_mut().write_all(text.as_bytes()).is_err() {
                    break;
                }
                line.clear();
                number += 1;
            }
        });
    }

    fn appliance(line: &str) -> String {
        match line {
            "" => String::new(),
            "help" => "help\r\ncommands:\r\nhelp\r\nend of commands\r\n".into(),
            "counters" => {
                "counters\r\nnetperf: a test\r\ncounters:\r\na 1\r\nend of counters\r\n".into()
            }
            other => format!("unknown command `{other}`\r\n"),
        }
    }

    #[test]
    fn a_serial_port_is_set_up_and_asked() {
        let pair = openpty(None, None).unwrap();
        play(File::from(pair.master), |_, line| appliance(line));
        let device = nix::unistd::ttyname(&pair.slave).unwrap();
        let mut console = Console::open(&device).unwrap();
        let settings = tcgetattr(&pair.slave).unwrap();
        assert_eq!(nix::sys::termios::cfgetospeed(&settings), BaudRate::B115200);
        console.greet(LONG).unwrap();
        let lines = console.ask(Question::Counters, LONG).unwrap();
        assert_eq!(lines, ["counters:", "a 1", "end of counters"]);
        assert_eq!(console.messages(), ["netperf: a test"]);
    }

    #[test]
    fn a_question_that_was_not_understood_is_asked_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("console");
        let listener = UnixListener::bind(&path).unwrap();
        std::thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            play(stream, |number, line| match number {
                0 => appliance("cou"),
                _ => appliance(line),
            });
        });
        let mut console = Console::open(&path).unwrap();
        let lines = console.ask(Question::Counters, LONG).unwrap();
        assert_eq!(lines.len(), 3);
    }

    /// What is said of a console that says `noise`.
    fn complaint(noise: &'static str, question: Question) -> String {
        let pair = openpty(None, None).unwrap();
        play(File::from(pair.master), |_, _| noise.into());
        let device = nix::unistd::ttyname(&pair.slave).unwrap();
        let mut console = Console::open(&device).unwrap();
        console.ask(question, SHORT).unwrap_err().to_string()
    }

    #[test]
    fn a_console_that_does_not_answer_is_said_with_what_to_check() {
        let silent = complaint("", Question::Help);
        assert!(silent.contains("nothing came at all"), "{silent}");
        assert!(silent.contains("console=com1"), "{silent}");
        let login = complaint("host login:\n", Question::Help);
        assert!(login.contains("\"host login:\""), "{login}");
        let garbled = complaint("\u{fffd}x\u{fffd}\n", Question::Help);
        assert!(garbled.contains("the speeds differ"), "{garbled}");
        let cut = complaint("counters:\na 1\n", Question::Counters);
        assert!(cut.contains("does not end"), "{cut}");
    }

    #[test]
    fn what_cannot_be_opened_is_said() {
        let error = Console::open(Path::new("/nonexistent/tty")).unwrap_err();
        assert!(error.to_string().contains("cannot open /nonexistent/tty"));
    }
}

//! The socket for commands: a line is answered by lines, of which the last is empty. An
//! answer that begins with `error:` says that the line was not obeyed.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};

use super::{Shared, remove_stale};
use crate::device::Device;

/// The longest line, in bytes.
const LINE_MAX: u64 = 1000;

/// Listens until it is dropped; then its socket is gone.
pub(super) struct Listener {
    path: PathBuf,
}

impl Listener {
    pub(super) fn start<D: Device + 'static>(path: &Path, shared: Arc<Shared<D>>) -> Result<Self> {
        remove_stale(path)?;
        let listener = UnixListener::bind(path)
            .with_context(|| format!("cannot listen on {}", path.display()))?;
        // The process's end ends it; nobody waits for a connection that never comes.
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let shared = Arc::clone(&shared);
                std::thread::spawn(move || answer(&stream, &shared));
            }
        });
        Ok(Self { path: path.into() })
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // It may be gone with its folder.
        drop(std::fs::remove_file(&self.path));
    }
}

/// Answers the lines of one connection until it ends.
fn answer<D: Device>(stream: &UnixStream, shared: &Shared<D>) {
    let mut reader = BufReader::new(stream);
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = (&mut reader).take(LINE_MAX).read_until(b'\n', &mut line);
        if !matches!(read, Ok(len) if len > 0) {
            return;
        }
        let text = String::from_utf8_lossy(&line);
        let words: Vec<&str> = text.split_whitespace().collect();
        let answer = if line.len() as u64 == LINE_MAX && !line.ends_with(b"\n") {
            Err("the line is too long".to_owned())
        } else {
            shared.with(|core| core.device.command(&mut core.host, &words))
        };
        let mut answer = match answer {
            Ok(answer) => answer,
            Err(error) => format!("error: {error}"),
        };
        if !answer.is_empty() && !answer.ends_with('\n') {
            answer.push('\n');
        }
        answer.push('\n');
        let mut writer = stream;
        if writer.write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

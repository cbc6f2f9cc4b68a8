//! A small HTTP server for one folder, on port 80 of the host's side of a network.

use std::fs::File;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use anyhow::{Context, Result, anyhow};
use tiny_http::{Request, Response, Server};

use crate::namespace::Namespace;
use crate::process::Log;

/// Serves files until it is dropped.
pub(super) struct FileServer {
    server: Arc<Server>,
    thread: Option<JoinHandle<()>>,
    requests: Log,
}

impl FileServer {
    /// Serves the files in `folder`, not those in folders of it.
    pub(super) fn start(namespace: &Namespace, folder: &Path) -> Result<Self> {
        let listener = namespace
            .enter(|| TcpListener::bind((Ipv4Addr::UNSPECIFIED, 80)))?
            .context("port 80 for HTTP")?;
        let server = Server::from_listener(listener, None)
            .map_err(|error| anyhow!("the HTTP server does not start: {error}"))?;
        let server = Arc::new(server);
        let requests = Log::default();
        let thread = std::thread::spawn({
            let (server, requests) = (Arc::clone(&server), requests.clone());
            let folder = folder.to_owned();
            move || {
                for request in server.incoming_requests() {
                    requests.push(format!("{} {}", request.method(), request.url()).as_bytes());
                    answer(request, &folder);
                }
            }
        });
        Ok(Self {
            server,
            thread: Some(thread),
            requests,
        })
    }

    pub(super) fn requests(&self) -> Vec<String> {
        self.requests.since(0)
    }
}

impl Drop for FileServer {
    fn drop(&mut self) {
        self.server.unblock();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl std::fmt::Debug for FileServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("FileServer").field(&self.requests()).finish()
    }
}

/// A client that goes away meanwhile is no concern of the server.
fn answer(request: Request, folder: &Path) {
    let file = file(folder, request.url()).and_then(|path| File::open(path).ok());
    let _ = match file {
        Some(file) => request.respond(Response::from_file(file).with_chunked_threshold(usize::MAX)),
        None => request.respond(Response::empty(404)),
    };
}

/// The file that `url` means, if it is one right in `folder`.
fn file(folder: &Path, url: &str) -> Option<PathBuf> {
    let name = url.strip_prefix('/')?;
    let path = folder.join(name);
    (!name.contains('/') && path.is_file()).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_outside_of_the_folder_are_not_served() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a"), "a").unwrap();
        assert!(file(folder.path(), "/a").is_some());
        for url in ["/", "/..", "/../etc/passwd", "a", "//etc/passwd", "/b"] {
            assert_eq!(file(folder.path(), url), None, "{url}");
        }
    }
}

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jupyter_protocol::messaging::{ErrorOutput, ExecutionState, Stdio};
use jupyter_protocol::{JupyterMessageContent, Media, MediaType};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use super::{CallStep, Job, RunningKernel};
use crate::folder::Folder;
use crate::options::KernelLimits;
use crate::sandbox::watch;
use crate::{CodeOutput, Error, LimitKind, plain};

/// What a call has printed and returned so far.
struct Sofar<'a> {
    /// Printed texts are raw, since a sequence for the terminal may be divided.
    outputs: Vec<CodeOutput>,
    limits: &'a KernelLimits,
    folder: &'a Folder,
    /// The bytes of text that are kept.
    kept: usize,
    cut: usize,
    errors: usize,
    pictures: usize,
    left_pictures: usize,
}

/// The most errors of a call that are kept.
const MOST_ERRORS: usize = 8;

/// The most outputs of a call that are kept, apart from these.
const MOST_OUTPUTS: usize = 4096;

/// The most bytes of a traceback that are kept. Its end says most.
const MOST_TRACEBACK: usize = 16 << 10;

/// How many names of a picture are tried.
const TRIED_NAMES: usize = 200;

/// Why a call is stopped.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Why {
    Asked,
    TooLong,
}

impl RunningKernel {
    /// Runs the code of a call, and follows what comes of it.
    pub(super) async fn call(&mut self, job: &Job) -> Result<Vec<CodeOutput>, Error> {
        let limits = self.limits.clone();
        let folder = self.folder.clone();
        let mut sofar = Sofar::new(&limits, &folder);
        self.allow().await;
        if job.stop.is_stopped() {
            return Err(Error::NotBegun);
        }
        let id = self.connection.execute(&job.code).await?;
        let mut ticks = interval(watch::OFTEN);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut end = Instant::now() + limits.wall_time;
        let mut stopped = None;
        loop {
            tokio::select! {
                message = self.connection.next(&id) => match message {
                    Some(JupyterMessageContent::Status(status)) if status.execution_state == ExecutionState::Idle => break,
                    Some(message) => sofar.add(message, |output| _ = job.steps.send(CallStep::Output(output))),
                    None => return Err(Error::Died("its connection was closed".into())),
                },
                status = self.child.wait() => return Err(self.died(status)),
                Some(broken) = self.broken.recv() => {
                    // The connection of a process that ends is closed first.
                    if let Ok(status) = tokio::time::timeout(Duration::from_millis(200), self.child.wait()).await {
                        return Err(self.died(status));
                    }
                    return Err(self.broke(&broken));
                }
                _ = ticks.tick() => if let Some(error) = self.beyond().await { return Err(error) },
                () = job.stop.stopped(), if stopped.is_none() => {
                    stopped = Some(Why::Asked);
                    end = Instant::now() + limits.patience;
                    self.connection.interrupt().await;
                }
                () = sleep_until(end) => match stopped {
                    None => {
                        stopped = Some(Why::TooLong);
                        end = Instant::now() + limits.patience;
                        self.connection.interrupt().await;
                    }
                    Some(Why::Asked) => return Err(Error::Stopped(limits.patience)),
                    Some(Why::TooLong) => {
                        return Err(Error::Limit { kind: LimitKind::WallTime, most: limits.wall_time.as_secs() });
                    }
                },
            }
        }
        // A call that ends by going beyond a limit has not ended well.
        if let Some(error) = self.beyond().await {
            return Err(error);
        }
        let shown = sofar.outputs.len();
        let mut outputs = sofar.finish();
        match stopped {
            Some(Why::Asked) => outputs.push(CodeOutput::Note("the code was stopped".into())),
            Some(Why::TooLong) => {
                outputs.push(CodeOutput::Note(format!(
                    "the code was stopped after {} s, its limit",
                    limits.wall_time.as_secs_f32()
                )));
            }
            None => {}
        }
        for note in &outputs[shown..] {
            _ = job.steps.send(CallStep::Output(note.clone()));
        }
        Ok(outputs)
    }
}

impl<'a> Sofar<'a> {
    fn new(limits: &'a KernelLimits, folder: &'a Folder) -> Sofar<'a> {
        Sofar { outputs: Vec::new(), limits, folder, kept: 0, cut: 0, errors: 0, pictures: 0, left_pictures: 0 }
    }

    /// Takes a message, and shows what it adds.
    fn add(&mut self, message: JupyterMessageContent, mut show: impl FnMut(CodeOutput)) {
        match message {
            JupyterMessageContent::StreamContent(stream) => {
                let text = self.room_for(stream.text);
                if text.is_empty() {
                    return;
                }
                show(match stream.name {
                    Stdio::Stdout => CodeOutput::Stdout(plain(&text)),
                    Stdio::Stderr => CodeOutput::Stderr(plain(&text)),
                });
                match (&stream.name, self.outputs.last_mut()) {
                    (Stdio::Stdout, Some(CodeOutput::Stdout(last)))
                    | (Stdio::Stderr, Some(CodeOutput::Stderr(last))) => {
                        last.push_str(&text);
                    }
                    (Stdio::Stdout, _) => self.outputs.push(CodeOutput::Stdout(text)),
                    (Stdio::Stderr, _) => self.outputs.push(CodeOutput::Stderr(text)),
                }
            }
            JupyterMessageContent::ExecuteResult(result) => self.show_media(result.data, show),
            JupyterMessageContent::DisplayData(display) => self.show_media(display.data, show),
            JupyterMessageContent::UpdateDisplayData(display) => self.show_media(display.data, show),
            JupyterMessageContent::ErrorOutput(error) => {
                // Code may send as many as it likes.
                if self.errors < MOST_ERRORS {
                    let error = read_error(error);
                    show(error.clone());
                    self.outputs.push(error);
                }
                self.errors += 1;
            }
            _ => {}
        }
    }

    /// Takes the richest form that a model can have: a picture as a file, or else text.
    fn show_media(&mut self, data: Media, mut show: impl FnMut(CodeOutput)) {
        let picture = data.content.iter().find_map(|media| match media {
            MediaType::Png(text) => Some((text, "image/png", "png")),
            MediaType::Jpeg(text) => Some((text, "image/jpeg", "jpg")),
            MediaType::Gif(text) => Some((text, "image/gif", "gif")),
            _ => None,
        });
        if let Some((text, media, ending)) = picture {
            if self.pictures >= self.limits.pictures {
                self.left_pictures += 1;
                return;
            }
            let output = match self.save(text, ending) {
                Ok(name) => CodeOutput::Picture { name, media },
                Err(why) => CodeOutput::Note(format!("a picture could not be kept: {why}")),
            };
            self.pictures += 1;
            show(output.clone());
            self.outputs.push(output);
            return;
        }
        // What prints itself as JSON prints itself as text, too.
        let text = data.content.into_iter().fold(None, |best, media| match (media, best) {
            (MediaType::Plain(text), _) => Some(text),
            (MediaType::Markdown(text) | MediaType::Latex(text), None) => Some(text),
            (MediaType::Html(text) | MediaType::Svg(text), None) => Some(text),
            (_, best) => best,
        });
        let Some(text) = text else { return };
        let text = self.room_for(plain(&text));
        if !text.is_empty() {
            show(CodeOutput::Result(text.clone()));
            self.outputs.push(CodeOutput::Result(text));
        }
    }

    /// Writes a picture into the session's folder, under the first free name.
    fn save(&self, text: &str, ending: &str) -> Result<String, String> {
        let text: String = text.chars().filter(|c| !c.is_ascii_whitespace()).collect();
        let bytes = STANDARD.decode(text).map_err(|error| error.to_string())?;
        self.folder.check_room("a picture", bytes.len()).map_err(|error| error.to_string())?;
        // The first free name, unless somebody has taken all that are near.
        for number in 1..=TRIED_NAMES {
            let name = match number {
                TRIED_NAMES => format!("output-{}.{ending}", uuid::Uuid::new_v4().simple()),
                number => format!("output-{number}.{ending}"),
            };
            if self.folder.write_new(&name, &bytes).map_err(|error| error.to_string())? {
                return Ok(name);
            }
        }
        Err("there are too many pictures".into())
    }

    /// Returns as much of a text as may still be kept.
    fn room_for(&mut self, mut text: String) -> String {
        if self.outputs.len() >= MOST_OUTPUTS {
            self.cut += text.len();
            return String::new();
        }
        let room = self.limits.text - self.kept;
        if text.len() > room {
            let end = (0..=room).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
            self.cut += text.len() - end;
            text.truncate(end);
            // What follows a cut is cut, too.
            self.kept = self.limits.text;
            return text;
        }
        self.kept += text.len();
        text
    }

    fn finish(mut self) -> Vec<CodeOutput> {
        for output in &mut self.outputs {
            if let CodeOutput::Stdout(text) | CodeOutput::Stderr(text) = output {
                *text = plain(text);
            }
        }
        if self.cut > 0 {
            let most = self.limits.text;
            self.outputs
                .push(CodeOutput::Note(format!("{} more bytes of output were cut; at most {most} are kept", self.cut)));
        }
        if self.left_pictures > 0 {
            let most = self.limits.pictures;
            self.outputs.push(CodeOutput::Note(format!(
                "{} more pictures were left out; at most {most} are kept",
                self.left_pictures
            )));
        }
        self.outputs
    }
}

fn read_error(error: ErrorOutput) -> CodeOutput {
    // Its end is kept, before anything is done with it.
    let mut kept = 0;
    let mut parts: Vec<String> = Vec::new();
    for part in error.traceback.iter().rev() {
        let start =
            (0..=part.len()).find(|start| kept + part.len() - start <= MOST_TRACEBACK && part.is_char_boundary(*start));
        let Some(start) = start.filter(|_| kept < MOST_TRACEBACK) else { break };
        kept += part.len() - start + 1;
        parts.push(plain(&part[start..]));
    }
    let all: usize = error.traceback.iter().map(|part| part.len() + 1).sum();
    parts.reverse();
    let mut traceback: Vec<String> = parts.iter().flat_map(|part| part.lines()).map(str::to_owned).collect();
    if all > kept {
        traceback.insert(0, format!("[{} bytes before were cut]", all - kept));
    }
    let short = |text: &str| plain(&text.chars().take(4096).collect::<String>());
    CodeOutput::Error { name: short(&error.ename), message: short(&error.evalue), traceback }
}

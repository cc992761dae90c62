//! As JSON, schema `kvsim.left/1`. Fields are only ever added to a version; anything else makes a new one. Bytes are hexadecimal.

use std::collections::BTreeMap;

use kvsim_drive::case::{Answer, Left, Question};
use kvsim_sim::api::Body;
use kvsim_sim::sandbox::encode_request;
use serde::Serialize;

use super::{answered, asked, crash, entries};

/// The name and version of the schema.
const SCHEMA: &str = "kvsim.left/1";

/// What a crash left, and what is answered of it.
#[derive(Debug, Serialize)]
pub struct Document {
    schema: &'static str,
    crash: String,
    directory: String,
    files: Vec<File>,
    /// What the opening is told.
    options: BTreeMap<String, String>,
    questions: Vec<Asked>,
}

#[derive(Debug, Serialize)]
struct File {
    path: String,
    bytes: u64,
}

#[derive(Debug, Serialize)]
struct Asked {
    /// In words.
    asked: String,
    /// The payload of the guest ABI; absent for the opening.
    #[serde(skip_serializing_if = "Option::is_none")]
    request: Option<String>,
    /// In words.
    answered: String,
    /// The number of the guest ABI; absent if the guest failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u32>,
    /// Of a get that found something.
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<String>,
    /// Of a scan.
    #[serde(skip_serializing_if = "Option::is_none")]
    entries: Option<Vec<(String, String)>>,
}

/// All of it as a document.
#[must_use]
pub fn document(left: &Left, directory: &str) -> Document {
    Document {
        schema: SCHEMA,
        crash: crash(left),
        directory: directory.to_owned(),
        files: left
            .files
            .list()
            .iter()
            .map(|file| File {
                path: String::from_utf8_lossy(&file.path).into_owned(),
                bytes: file.size,
            })
            .collect(),
        options: left.options.clone(),
        questions: left.questions.iter().map(of).collect(),
    }
}

fn of(question: &Question) -> Asked {
    let body = match &question.answer {
        Answer::Reply(reply) => Some(&reply.body),
        Answer::Failed(_) => None,
    };
    let pairs = body.and_then(entries);
    Asked {
        asked: asked(question),
        request: question.request.as_ref().map(|request| {
            let mut bytes = Vec::new();
            encode_request(request, &mut bytes);
            hex(&bytes)
        }),
        answered: answered(question),
        status: match &question.answer {
            Answer::Reply(reply) => Some(reply.status as u32),
            Answer::Failed(_) => None,
        },
        value: match body {
            Some(Body::Value(value)) => Some(hex(value)),
            _ => None,
        },
        entries: pairs.map(|pairs| {
            pairs
                .into_iter()
                .map(|(key, value)| (hex(key), hex(value)))
                .collect()
        }),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

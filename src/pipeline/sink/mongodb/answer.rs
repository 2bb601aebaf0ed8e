//! The server's answers: which rows it has, and which errors are temporary.

use mongodb::bson::{Bson, Document};
use mongodb::error::{Error, ErrorKind};

use super::DocumentId;
use crate::measure::FailureClass;
use crate::pipeline::sink::{RefusedRow, SinkError, WriteOutcome};

/// The row has an `_id`, or a value of another unique index, that is there already.
const DUPLICATE_KEY: i64 = 11_000;

/// Adds the results of an insert of `rows` rows, from number `first` of their batch on, to `written`, and returns how many rows were tried.
pub(super) fn account(
    answer: &Document,
    first: usize,
    rows: usize,
    ordered: bool,
    ids: DocumentId,
    written: &mut WriteOutcome,
) -> Result<usize, SinkError> {
    if let Some(Bson::Document(concern)) = answer.get("writeConcernError") {
        let message = concern.get_str("errmsg").unwrap_or("the write concern was not met").to_owned();
        return Err(SinkError { class: FailureClass::Timeout, message, retriable: true, disconnected: false });
    }
    let errors = answer.get_array("writeErrors").map(Vec::as_slice).unwrap_or_default();
    let mut errors: Vec<&Document> = errors.iter().filter_map(Bson::as_document).collect();
    let mut tried = rows;
    let place = |error: &Document| number(error.get("index")).unsigned_abs() as usize;
    if let Some(error) = errors.first().filter(|_| ordered) {
        tried = (place(error) + 1).min(rows);
        // FerretDB continues after it, but not with every row: a row that is written again is counted as a duplicate.
        errors.truncate(1);
    }
    let before = written.duplicates as usize + written.refused.len();
    for error in &errors {
        let message = error.get_str("errmsg").unwrap_or_default();
        match number(error.get("code")) {
            DUPLICATE_KEY if ids == DocumentId::Offset && is_of_id(error) => written.duplicates += 1,
            code => {
                let refusal = server_error(code, message);
                if refusal.retriable {
                    return Err(refusal);
                }
                let SinkError { class, message, .. } = refusal;
                written.refused.push(RefusedRow { row: first + place(error), class, message });
            }
        }
    }
    let missed = written.duplicates as usize + written.refused.len() - before;
    written.rows += (tried - missed.min(tried)) as u64;
    Ok(tried)
}

/// Whether the duplicate is the `_id`. Servers name the index. FerretDB does not: there the `_id` is assumed.
fn is_of_id(error: &Document) -> bool {
    match (error.get_document("keyPattern"), error.get_str("errmsg").unwrap_or_default().split_once(" index: ")) {
        (Ok(keys), _) => keys.contains_key("_id"),
        (_, Some((_, index))) => index.starts_with("_id"),
        _ => true,
    }
}

/// What `$collStats` counted: a sharded collection has a document of each shard.
pub(super) fn counted(answer: &Document) -> u64 {
    let shards = first_batch(answer).iter().filter_map(Bson::as_document);
    shards.map(|shard| number(shard.get("count")).unsigned_abs()).sum()
}

/// The documents of the first batch of a cursor.
pub(super) fn first_batch(answer: &Document) -> &[Bson] {
    let batch = answer.get_document("cursor").and_then(|cursor| cursor.get_array("firstBatch"));
    batch.map(Vec::as_slice).unwrap_or_default()
}

/// Whether the server would have inserted a document whose `_id` it cannot take. It refuses the document with BadValue or
/// InvalidIdField; another error is one that every document would meet.
pub(super) fn proven(answer: &Document) -> Result<(), SinkError> {
    let Some((code, message)) = first_error(answer) else { return Ok(()) };
    if [2, 53].contains(&code) { Ok(()) } else { Err(server_error(code, message)) }
}

/// Whether the server has removed all that was asked for.
pub(super) fn removed(answer: &Document) -> Result<(), SinkError> {
    first_error(answer).map_or(Ok(()), |(code, message)| Err(server_error(code, message)))
}

/// The code and the message of the first row's error.
fn first_error(answer: &Document) -> Option<(i64, &str)> {
    let error = answer.get_array("writeErrors").ok()?.first()?.as_document()?;
    Some((number(error.get("code")), error.get_str("errmsg").unwrap_or_default()))
}

/// NamespaceNotFound: nothing has been written to it.
pub(super) fn is_of_no_collection(error: &Error) -> bool {
    matches!(error.kind.as_ref(), ErrorKind::Command(command) if command.code == 26)
}

/// A number of any type.
fn number(value: Option<&Bson>) -> i64 {
    match value {
        Some(Bson::Int32(number)) => i64::from(*number),
        Some(Bson::Int64(number)) => *number,
        Some(Bson::Double(number)) => *number as i64,
        _ => 0,
    }
}

/// An error of the driver, in its words. It shows the labels and the source of an error beside them.
pub(super) fn failure(error: &Error) -> SinkError {
    match error.kind.as_ref() {
        ErrorKind::Command(command) => {
            let code = i64::from(command.code);
            let error = server_error(code, &command.message);
            // Errors of a whole command are mostly temporary; errors of its rows are in the answer.
            SinkError { retriable: error.retriable || !NEVER.contains(&code), ..error }
        }
        ErrorKind::Authentication { .. } => {
            SinkError::disconnected(FailureClass::Authorisation, error.kind.to_string())
        }
        ErrorKind::Io(_) | ErrorKind::ConnectionPoolCleared { .. } | ErrorKind::ServerSelection { .. } => {
            SinkError::disconnected(FailureClass::ConnectionLost, error.kind.to_string())
        }
        _ => SinkError::disconnected(FailureClass::Other, error.kind.to_string()),
    }
}

/// Errors that no repetition changes: BadValue, FailedToParse, TypeMismatch, CommandNotFound, InvalidNamespace,
/// InvalidOptions, UnknownReplWriteConcern, CommandNotSupported, CommandNotSupportedOnView, and a document that is too large.
const NEVER: [i64; 11] = [2, 9, 14, 59, 72, 73, 79, 115, 166, 10_334, 17_280];

/// By the server's code: `src/mongo/base/error_codes.yml` of MongoDB. Some servers of the protocol report all
/// errors of their own as 1, InternalError.
fn server_error(code: i64, message: &str) -> SinkError {
    let is_full = |text: &str| text.contains("is full") || text.contains("No space left");
    let (class, retriable) = match code {
        // BSONObjectTooLarge, and the code of older servers.
        10_334 | 17_280 => (FailureClass::TooLarge, false),
        14_031 => (FailureClass::Full, true),
        1 | 8 if is_full(message) => (FailureClass::Full, true),
        1 => (FailureClass::Other, true),
        13 | 18 => (FailureClass::Authorisation, true),
        50 | 262 => (FailureClass::Timeout, true),
        // No primary right now: HostUnreachable, HostNotFound, shutting down, not the primary any more, being elected.
        6 | 7 | 89 | 91 | 189 | 9_001 | 10_107 | 11_600 | 11_602 | 13_435 | 13_436 => {
            (FailureClass::ConnectionLost, true)
        }
        _ => (FailureClass::Refused, false),
    };
    SinkError { class, message: message.to_owned(), retriable, disconnected: false }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mongodb::bson::doc;

    #[test]
    fn answers_are_accounted_for_row_by_row() {
        let error = |index: i32, code: i32| doc! { "index": index, "code": code, "errmsg": "no" };
        let ids = DocumentId::Offset;
        let mut written = WriteOutcome::default();
        let answer = doc! { "n": 1, "writeErrors": [error(1, 11_000)] };
        assert_eq!(account(&answer, 0, 5, true, ids, &mut written), Ok(2), "it ended at the second");
        assert_eq!((written.rows, written.duplicates), (1, 1));
        let answer = doc! { "n": 200, "writeErrors": [error(0, 11_000), error(100, 11_000)] };
        let mut first = WriteOutcome::default();
        assert_eq!(account(&answer, 0, 300, true, ids, &mut first), Ok(1));
        assert_eq!((first.rows, first.duplicates), (0, 1), "the others are asked for again");
        let answer = doc! { "n": 1, "writeErrors": [error(0, 11_000), error(2, 121)] };
        assert_eq!(account(&answer, 5, 3, false, ids, &mut written), Ok(3));
        assert_eq!(written.rows, 2);
        assert_eq!(written.duplicates, 2);
        assert_eq!(written.refused.iter().map(|refused| refused.row).collect::<Vec<_>>(), [7], "the third after five");
        let large = doc! { "n": 0, "writeErrors": [error(0, 10_334)] };
        assert_eq!(account(&large, 8, 1, true, ids, &mut written), Ok(1));
        assert_eq!(written.refused.last().unwrap().class, FailureClass::TooLarge);
        let away = doc! { "n": 0, "writeErrors": [error(0, 10_107)] };
        assert!(account(&away, 9, 1, false, ids, &mut written).unwrap_err().retriable);
    }

    #[test]
    fn refused_id_proves_that_rows_may_be_written() {
        let answered = |code: i32| doc! { "n": 0, "writeErrors": [{ "index": 0, "code": code, "errmsg": "no" }] };
        assert_eq!((proven(&answered(2)), proven(&answered(53))), (Ok(()), Ok(())));
        assert_eq!(proven(&answered(13)).unwrap_err().class, FailureClass::Authorisation);
        assert_eq!(removed(&answered(13)).unwrap_err().message, "no");
        assert_eq!(removed(&doc! { "n": 3 }), Ok(()));
    }

    #[test]
    fn unique_value_conflict_is_not_a_duplicate_row() {
        let counts = |ids, keys: Option<Document>, text: &str| {
            let mut error = doc! { "index": 0, "code": 11_000, "errmsg": text };
            error.extend(keys.map(|keys| ("keyPattern".to_owned(), Bson::Document(keys))));
            let mut written = WriteOutcome::default();
            account(&doc! { "n": 0, "writeErrors": [error] }, 0, 1, true, ids, &mut written).unwrap();
            (written.duplicates, written.refused.len())
        };
        use DocumentId::*;
        assert_eq!(counts(Offset, Some(doc! { "_id": 1 }), "E11000"), (1, 0));
        assert_eq!(counts(Offset, Some(doc! { "value": 1 }), "E11000"), (0, 1));
        assert_eq!(counts(Offset, None, "E11000 duplicate key error collection: d.c index: _id_ dup key"), (1, 0));
        assert_eq!(counts(Offset, None, "E11000 duplicate key error collection: d.c index: value_1 dup key"), (0, 1));
        assert_eq!(counts(Generated, None, "E11000 duplicate key error collection: d.c"), (0, 1));
    }
}

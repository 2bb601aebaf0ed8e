use super::*;

const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn frames_are_read_as_written_and_half_of_one_is_an_error() {
    let mut bytes = Vec::new();
    let long = "long ".repeat(AT_ONCE);
    for message in ["one", "", &long, "three"] {
        write_frame(&mut bytes, &message).await.unwrap();
    }
    let mut from = &bytes[..bytes.len() - 1];
    assert_eq!(read_frame::<String>(&mut from, PATIENCE).await.unwrap(), "one");
    assert_eq!(read_frame::<String>(&mut from, PATIENCE).await.unwrap(), "");
    assert_eq!(read_frame::<String>(&mut from, PATIENCE).await.unwrap(), long);
    assert_eq!(read_frame::<String>(&mut from, PATIENCE).await.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    let mut endless: &[u8] = &[0xff; 8];
    assert!(
        read_frame::<String>(&mut endless, PATIENCE)
            .await
            .unwrap_err()
            .to_string()
            .contains("4294967295 bytes are more")
    );
}

/// A value that can be read only while another task runs.
struct Waiting;

static OTHER_TASK_RAN: Gate = Gate::new();

impl<'de> Deserialize<'de> for Waiting {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        serde::de::IgnoredAny::deserialize(from)?;
        if OTHER_TASK_RAN.passed() { Ok(Waiting) } else { Err(serde::de::Error::custom("the other task did not run")) }
    }
}

/// One thread opens it, another one waits for that.
struct Gate(std::sync::Mutex<bool>, std::sync::Condvar);

impl Gate {
    const fn new() -> Self {
        Gate(std::sync::Mutex::new(false), std::sync::Condvar::new())
    }

    fn open(&self) {
        *self.0.lock().unwrap() = true;
        self.1.notify_all();
    }

    fn passed(&self) -> bool {
        let open = self.0.lock().unwrap();
        *self.1.wait_timeout_while(open, PATIENCE, |open| !*open).unwrap().0
    }
}

/// On one thread.
#[tokio::test]
async fn a_long_message_is_read_while_others_are_answered() {
    let mut bytes = Vec::new();
    write_frame(&mut bytes, &"long ".repeat(AT_ONCE)).await.unwrap();
    let mut from = bytes.as_slice();
    let (read, ()) = tokio::join!(read_frame::<Waiting>(&mut from, PATIENCE), async { OTHER_TASK_RAN.open() });
    assert!(read.is_ok(), "{:?}", read.err());
}

#[tokio::test]
async fn a_sender_that_is_silent_is_given_up() {
    let (_kept_open, mut from) = tokio::io::duplex(64);
    let error = read_frame::<String>(&mut from, Duration::from_millis(1)).await.unwrap_err();
    assert!(error.to_string().contains("nothing came"), "{error}");
}

//! The protocol's messages that are used here, with the numbers of `PulsarApi.proto` (Apache Pulsar 4.0,
//! `pulsar-common/src/main/proto/PulsarApi.proto`, package `pulsar.proto`).
//!
//! Written by hand: the whole file has 60 commands, of which a client that only sends and receives needs a third, and
//! generating them would ask for a protobuf compiler at build time. What is left out here is skipped when it arrives.
//! The metadata of messages is written per message, without these types: see [`super::entry`].

/// `BaseCommand` as sent by a client: exactly one of the optional fields is set, the one that `kind` names.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ToBroker {
    #[prost(enumeration = "Kind", required, tag = "1")]
    pub kind: i32,
    #[prost(message, optional, boxed, tag = "2")]
    pub connect: Option<Box<Connect>>,
    #[prost(message, optional, boxed, tag = "4")]
    pub subscribe: Option<Box<Subscribe>>,
    #[prost(message, optional, boxed, tag = "5")]
    pub producer: Option<Box<Producer>>,
    #[prost(message, optional, tag = "6")]
    pub send: Option<Send>,
    #[prost(message, optional, boxed, tag = "10")]
    pub ack: Option<Box<Ack>>,
    #[prost(message, optional, tag = "11")]
    pub flow: Option<Flow>,
    #[prost(message, optional, tag = "15")]
    pub close_producer: Option<CloseProducer>,
    #[prost(message, optional, tag = "16")]
    pub close_consumer: Option<CloseConsumer>,
    #[prost(message, optional, tag = "18")]
    pub ping: Option<Nothing>,
    #[prost(message, optional, tag = "19")]
    pub pong: Option<Nothing>,
    #[prost(message, optional, boxed, tag = "20")]
    pub redeliver: Option<Box<Redeliver>>,
    #[prost(message, optional, boxed, tag = "23")]
    pub lookup: Option<Box<Lookup>>,
    #[prost(message, optional, boxed, tag = "37")]
    pub auth_response: Option<Box<AuthResponse>>,
}

/// `BaseCommand` as received from a broker.
#[derive(Clone, PartialEq, prost::Message)]
pub struct FromBroker {
    /// Not an enumeration of ours: newer brokers know more kinds.
    #[prost(int32, required, tag = "1")]
    pub kind: i32,
    #[prost(message, optional, boxed, tag = "3")]
    pub connected: Option<Box<Connected>>,
    #[prost(message, optional, tag = "7")]
    pub send_receipt: Option<SendReceipt>,
    #[prost(message, optional, boxed, tag = "8")]
    pub send_error: Option<Box<SendError>>,
    #[prost(message, optional, tag = "9")]
    pub message: Option<Message>,
    #[prost(message, optional, tag = "13")]
    pub success: Option<Success>,
    #[prost(message, optional, boxed, tag = "14")]
    pub error: Option<Box<Refusal>>,
    #[prost(message, optional, tag = "15")]
    pub close_producer: Option<CloseProducer>,
    #[prost(message, optional, tag = "16")]
    pub close_consumer: Option<CloseConsumer>,
    #[prost(message, optional, boxed, tag = "17")]
    pub producer_success: Option<Box<ProducerSuccess>>,
    #[prost(message, optional, boxed, tag = "24")]
    pub lookup_response: Option<Box<LookupResponse>>,
}

impl FromBroker {
    /// Whether it says that a producer must wait until others give up their exclusive access. Another response follows.
    pub fn is_queued(&self) -> bool {
        self.producer_success.as_ref().is_some_and(|success| success.producer_ready == Some(false))
    }
}

/// `BaseCommand.Type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum Kind {
    Connect = 2,
    Connected = 3,
    Subscribe = 4,
    Producer = 5,
    Send = 6,
    SendReceipt = 7,
    SendError = 8,
    Message = 9,
    Ack = 10,
    Flow = 11,
    Success = 13,
    Error = 14,
    CloseProducer = 15,
    CloseConsumer = 16,
    ProducerSuccess = 17,
    Ping = 18,
    Pong = 19,
    Redeliver = 20,
    Lookup = 23,
    LookupResponse = 24,
    AuthChallenge = 36,
    AuthResponse = 37,
}

/// `ServerError`: why the broker refuses something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum ServerError {
    UnknownError = 0,
    MetadataError = 1,
    PersistenceError = 2,
    AuthenticationError = 3,
    AuthorizationError = 4,
    ConsumerBusy = 5,
    ServiceNotReady = 6,
    ProducerBlockedQuotaExceededError = 7,
    ProducerBlockedQuotaExceededException = 8,
    ChecksumError = 9,
    UnsupportedVersionError = 10,
    TopicNotFound = 11,
    SubscriptionNotFound = 12,
    ConsumerNotFound = 13,
    TooManyRequests = 14,
    TopicTerminatedError = 15,
    ProducerBusy = 16,
    InvalidTopicName = 17,
    IncompatibleSchema = 18,
    ConsumerAssignError = 19,
    TransactionCoordinatorNotFound = 20,
    InvalidTxnStatus = 21,
    NotAllowedError = 22,
    TransactionConflict = 23,
    TransactionNotFound = 24,
    ProducerFenced = 25,
}

/// `CommandPing`, `CommandPong`.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct Nothing {}

/// `CommandConnect`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Connect {
    #[prost(string, required, tag = "1")]
    pub client_version: String,
    #[prost(bytes = "vec", optional, tag = "3")]
    pub auth_data: Option<Vec<u8>>,
    #[prost(int32, optional, tag = "4")]
    pub protocol_version: Option<i32>,
    #[prost(string, optional, tag = "5")]
    pub auth_method_name: Option<String>,
    /// Only a proxy reads it.
    #[prost(string, optional, tag = "6")]
    pub proxy_to_broker_url: Option<String>,
    #[prost(message, optional, tag = "10")]
    pub feature_flags: Option<FeatureFlags>,
}

/// `FeatureFlags`. Without `supports_broker_entry_metadata` (2) messages arrive as they were sent.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct FeatureFlags {
    #[prost(bool, optional, tag = "1")]
    pub supports_auth_refresh: Option<bool>,
}

/// `CommandConnected`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Connected {
    #[prost(string, required, tag = "1")]
    pub server_version: String,
    #[prost(int32, optional, tag = "2")]
    pub protocol_version: Option<i32>,
    #[prost(int32, optional, tag = "3")]
    pub max_message_size: Option<i32>,
}

/// `CommandAuthResponse`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct AuthResponse {
    #[prost(string, optional, tag = "1")]
    pub client_version: Option<String>,
    #[prost(message, optional, tag = "2")]
    pub response: Option<AuthData>,
    #[prost(int32, optional, tag = "3")]
    pub protocol_version: Option<i32>,
}

/// `AuthData`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct AuthData {
    #[prost(string, optional, tag = "1")]
    pub auth_method_name: Option<String>,
    #[prost(bytes = "vec", optional, tag = "2")]
    pub auth_data: Option<Vec<u8>>,
}

/// `CommandLookupTopic`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Lookup {
    #[prost(string, required, tag = "1")]
    pub topic: String,
    #[prost(uint64, required, tag = "2")]
    pub request_id: u64,
    #[prost(bool, optional, tag = "3")]
    pub authoritative: Option<bool>,
}

/// `CommandLookupTopicResponse`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct LookupResponse {
    #[prost(string, optional, tag = "1")]
    pub broker_service_url: Option<String>,
    #[prost(string, optional, tag = "2")]
    pub broker_service_url_tls: Option<String>,
    #[prost(enumeration = "LookupType", optional, tag = "3")]
    pub response: Option<i32>,
    #[prost(uint64, required, tag = "4")]
    pub request_id: u64,
    #[prost(bool, optional, tag = "5")]
    pub authoritative: Option<bool>,
    #[prost(int32, optional, tag = "6")]
    pub error: Option<i32>,
    #[prost(string, optional, tag = "7")]
    pub message: Option<String>,
    #[prost(bool, optional, tag = "8")]
    pub proxy_through_service_url: Option<bool>,
}

/// `CommandLookupTopicResponse.LookupType`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum LookupType {
    Redirect = 0,
    Connect = 1,
    Failed = 2,
}

/// `CommandProducer`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Producer {
    #[prost(string, required, tag = "1")]
    pub topic: String,
    #[prost(uint64, required, tag = "2")]
    pub producer_id: u64,
    #[prost(uint64, required, tag = "3")]
    pub request_id: u64,
    #[prost(string, optional, tag = "4")]
    pub producer_name: Option<String>,
    #[prost(uint64, optional, tag = "8")]
    pub epoch: Option<u64>,
    #[prost(bool, optional, tag = "9")]
    pub user_provided_producer_name: Option<bool>,
    /// `ProducerAccessMode`.
    #[prost(int32, optional, tag = "10")]
    pub producer_access_mode: Option<i32>,
    /// From an earlier `ProducerSuccess`: with it, the broker refuses a producer that was fenced meanwhile.
    #[prost(uint64, optional, tag = "11")]
    pub topic_epoch: Option<u64>,
}

/// `CommandProducerSuccess`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ProducerSuccess {
    #[prost(uint64, required, tag = "1")]
    pub request_id: u64,
    #[prost(string, required, tag = "2")]
    pub producer_name: String,
    /// -1 if it has sent nothing before.
    #[prost(int64, optional, tag = "3")]
    pub last_sequence_id: Option<i64>,
    #[prost(uint64, optional, tag = "5")]
    pub topic_epoch: Option<u64>,
    /// False: another response follows when the producer has exclusive access.
    #[prost(bool, optional, tag = "6")]
    pub producer_ready: Option<bool>,
}

/// `CommandSend`.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct Send {
    #[prost(uint64, required, tag = "1")]
    pub producer_id: u64,
    #[prost(uint64, required, tag = "2")]
    pub sequence_id: u64,
    #[prost(int32, optional, tag = "3")]
    pub num_messages: Option<i32>,
    #[prost(uint64, optional, tag = "6")]
    pub highest_sequence_id: Option<u64>,
}

/// The broker needs the producer no more.
pub fn close_producer(producer_id: u64, request_id: u64) -> ToBroker {
    let close = CloseProducer { producer_id, request_id };
    ToBroker { kind: Kind::CloseProducer.into(), close_producer: Some(close), ..ToBroker::default() }
}

/// The command before an entry of `count` messages.
pub fn send_command(producer_id: u64, sequence_id: u64, count: usize) -> ToBroker {
    let send = Send {
        producer_id,
        sequence_id,
        num_messages: (count > 1).then_some(count as i32),
        highest_sequence_id: (count > 1).then(|| sequence_id + count as u64 - 1),
    };
    ToBroker { kind: Kind::Send.into(), send: Some(send), ..ToBroker::default() }
}

/// `CommandSendReceipt` without the message id, which is not used.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct SendReceipt {
    #[prost(uint64, required, tag = "1")]
    pub producer_id: u64,
    #[prost(uint64, required, tag = "2")]
    pub sequence_id: u64,
}

/// `CommandSendError`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct SendError {
    #[prost(uint64, required, tag = "1")]
    pub producer_id: u64,
    #[prost(uint64, required, tag = "2")]
    pub sequence_id: u64,
    #[prost(int32, required, tag = "3")]
    pub error: i32,
    #[prost(string, required, tag = "4")]
    pub message: String,
}

/// `CommandSubscribe`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Subscribe {
    #[prost(string, required, tag = "1")]
    pub topic: String,
    #[prost(string, required, tag = "2")]
    pub subscription: String,
    /// `SubType`.
    #[prost(int32, required, tag = "3")]
    pub sub_type: i32,
    #[prost(uint64, required, tag = "4")]
    pub consumer_id: u64,
    #[prost(uint64, required, tag = "5")]
    pub request_id: u64,
    #[prost(string, optional, tag = "6")]
    pub consumer_name: Option<String>,
    #[prost(bool, optional, tag = "8")]
    pub durable: Option<bool>,
    /// `InitialPosition`: 0 latest, 1 earliest.
    #[prost(int32, optional, tag = "13")]
    pub initial_position: Option<i32>,
}

/// `CommandMessage`: the message itself follows the command.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Message {
    #[prost(uint64, required, tag = "1")]
    pub consumer_id: u64,
    #[prost(message, required, tag = "2")]
    pub message_id: MessageId,
    #[prost(uint32, optional, tag = "3")]
    pub redelivery_count: Option<u32>,
}

/// `MessageIdData`.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct MessageId {
    #[prost(uint64, required, tag = "1")]
    pub ledger_id: u64,
    #[prost(uint64, required, tag = "2")]
    pub entry_id: u64,
}

/// `CommandAck`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Ack {
    #[prost(uint64, required, tag = "1")]
    pub consumer_id: u64,
    /// `AckType`: 0 individual, 1 cumulative.
    #[prost(int32, required, tag = "2")]
    pub ack_type: i32,
    #[prost(message, repeated, tag = "3")]
    pub message_id: Vec<MessageId>,
}

/// `CommandRedeliverUnacknowledgedMessages`, which is how clients acknowledge negatively.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Redeliver {
    #[prost(uint64, required, tag = "1")]
    pub consumer_id: u64,
    #[prost(message, repeated, tag = "2")]
    pub message_ids: Vec<MessageId>,
}

/// `CommandFlow`.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct Flow {
    #[prost(uint64, required, tag = "1")]
    pub consumer_id: u64,
    #[prost(uint32, required, tag = "2")]
    pub message_permits: u32,
}

/// `CommandSuccess`.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct Success {
    #[prost(uint64, required, tag = "1")]
    pub request_id: u64,
}

/// `CommandError`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Refusal {
    #[prost(uint64, required, tag = "1")]
    pub request_id: u64,
    #[prost(int32, required, tag = "2")]
    pub error: i32,
    #[prost(string, required, tag = "3")]
    pub message: String,
}

/// `CommandCloseProducer`: from a client, it does not need the producer any more; from the broker, the producer is closed, as the
/// topic may have moved.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct CloseProducer {
    #[prost(uint64, required, tag = "1")]
    pub producer_id: u64,
    #[prost(uint64, required, tag = "2")]
    pub request_id: u64,
}

/// `CommandCloseConsumer`, as for a producer.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct CloseConsumer {
    #[prost(uint64, required, tag = "1")]
    pub consumer_id: u64,
    #[prost(uint64, required, tag = "2")]
    pub request_id: u64,
}

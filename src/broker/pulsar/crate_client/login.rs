//! The token, as the crate asks for it whenever it connects and when the broker authenticates it again.

use std::future::{Future, ready};
use std::pin::Pin;
use std::sync::Arc;

use pulsar_rs::authentication::Authentication;
use pulsar_rs::error::AuthenticationError;

use crate::broker::pulsar::token::Token;

pub struct Login(pub Arc<Token>);

type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, AuthenticationError>> + Send + 'a>>;

impl Authentication for Login {
    fn auth_method_name(&self) -> String {
        "token".to_owned()
    }

    fn initialize<'life, 'answer>(&'life mut self) -> Answer<'answer, ()>
    where
        'life: 'answer,
        Self: 'answer,
    {
        Box::pin(ready(Ok(())))
    }

    fn auth_data<'life, 'answer>(&'life mut self) -> Answer<'answer, Vec<u8>>
    where
        'life: 'answer,
        Self: 'answer,
    {
        Box::pin(async { Ok(self.0.current().await.as_bytes().to_vec()) })
    }
}

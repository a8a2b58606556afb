//! A fake server that sends any response a test wants, correct or not.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

use serde_json::Value;

/// A request.
#[derive(Clone, Debug)]
pub struct Question {
    /// The method and path.
    pub line: String,
    /// The headers, in lower case.
    pub headers: Vec<String>,
    /// The body, or `null` if it is not JSON.
    pub body: Value,
}

impl Question {
    /// Returns whether the request has this header, as `name: value` in lower case.
    pub fn has(&self, header: &str) -> bool {
        self.headers.iter().any(|given| given == header)
    }
}

/// A response.
#[derive(Clone, Debug)]
pub struct Said {
    /// The status of the response.
    pub status: u16,
    /// Headers in addition to those of every response.
    pub headers: Vec<(&'static str, String)>,
    /// The body of the response.
    pub body: Value,
}

impl From<(u16, Value)> for Said {
    fn from((status, body): (u16, Value)) -> Self {
        Self { status, headers: Vec::new(), body }
    }
}

/// Starts a server that responds to every request with a status and JSON. Returns its URL. It runs until the test's
/// process ends.
pub fn serve<A, S>(answer: A) -> String
where
    A: Fn(&Question) -> S + Send + Sync + 'static,
    S: Into<Said>,
{
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("its address"));
    let answer = Arc::new(answer);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let answer = answer.clone();
            // Ignores errors of clients that disconnect.
            std::thread::spawn(move || drop(converse(stream, &*answer)));
        }
    });
    url
}

fn converse<S: Into<Said>>(
    stream: TcpStream,
    answer: &(impl Fn(&Question) -> S + ?Sized),
) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut stream = stream;
    while let Some(question) = read(&mut reader)? {
        // Every command first checks whether the server is there.
        let is_greeting = question.line.starts_with("GET /readyz ");
        let said = if is_greeting { (200, Value::Null).into() } else { answer(&question).into() };
        let Said { status, headers, body } = said;
        let body = body.to_string();
        let mut head = format!("HTTP/1.1 {status} X\r\ncontent-type: application/json");
        for (name, value) in headers {
            head += &format!("\r\n{name}: {value}");
        }
        write!(stream, "{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len())?;
    }
    Ok(())
}

fn read(reader: &mut impl BufRead) -> std::io::Result<Option<Question>> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    let headers: Vec<_> = lines.drain(1..).map(|line| line.to_lowercase()).collect();
    let length = headers.iter().find_map(|header| header.strip_prefix("content-length: "));
    let mut body = vec![0; length.and_then(|length| length.parse().ok()).unwrap_or(0)];
    reader.read_exact(&mut body)?;
    let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
    Ok(Some(Question { line: lines.remove(0), headers, body }))
}

//! The examples of fenced stores, with real servers.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::Signal;
use suffrage_servers::Servers as _;
use suffrage_servers::postgres;
use suffrage_servers::programs::{Foreign, Server, python};
use suffrage_testbed::{Folder, until};

use crate::cluster::Cluster;
use crate::driver::DriverProgram;

/// A server with the interface of S3, and the client of its examples.
const S3: &[&str] = &["moto[server]==5.2.5", "boto3==1.44.3"];
const BUCKET: &str = "ledger";

/// An example that runs, and its environment.
struct Example {
    path: PathBuf,
    interpreter: PathBuf,
    environment: Vec<(&'static str, String)>,
}

impl Example {
    fn start(&self, node: String, flags: &[&str]) -> Foreign {
        let library = self.path.with_file_name("../src");
        let mut command = Command::new(&self.interpreter);
        command.arg(&self.path).args(flags).env("PYTHONPATH", library).env("SUFFRAGE_NODE", node);
        command.envs(self.environment.iter().map(|(key, value)| (*key, value)));
        Foreign::start(&mut command)
    }
}

/// The token of the next line that begins with this word.
fn token(program: &mut Foreign, word: &str) -> u64 {
    loop {
        let line = program.hear();
        if let Some(token) = line.strip_prefix(word) {
            return token.trim().parse().expect("a token");
        }
        assert!(!line.starts_with("refused") && !line.starts_with("ended"), "{line}");
    }
}

/// A leader is suspended before a write, for longer than its lease. The next leader writes. When the first continues, the
/// store refuses its write.
fn fenced(example: &Example, tokens: impl Fn() -> Vec<u64>) {
    let cluster = Cluster::start();
    let mut first = example.start(cluster.endpoint(0), &["--step"]);
    let old = token(&mut first, "leading");
    for _ in 0..3 {
        first.say("");
        assert_eq!(token(&mut first, "wrote"), old);
    }
    let mut second = example.start(cluster.endpoint(1), &[]);
    cluster.await_candidate(1, "ledger");
    first.process.signal(Signal::STOP);
    let new = token(&mut second, "leading");
    assert!(new > old);
    (0..3).for_each(|_| assert_eq!(token(&mut second, "wrote"), new));
    first.process.signal(Signal::CONT);
    first.say("");
    assert_eq!(first.hear(), format!("refused {old}"));
    (0..3).for_each(|_| assert_eq!(token(&mut second, "wrote"), new));
    let all = tokens();
    assert_eq!(all[..3], [old; 3]);
    assert!(
        all.len() >= 9 && all[3..].iter().all(|&token| token == new),
        "a former leader has written: {all:?}"
    );
}

/// A table whose transactions check the token.
pub(super) fn fenced_postgres(program: &DriverProgram) {
    let server = postgres::start();
    let url = server.url(&server.addresses()).replace("postgres://", "postgresql://");
    let path = program.example("fenced_postgres").expect("it exists");
    let environment = vec![("DATABASE_URL", url)];
    let example = Example { path, interpreter: python(postgres::CLIENT), environment };
    fenced(&example, || parse(&server.sql("SELECT token FROM ledger ORDER BY id")));
}

/// An object that is replaced by conditional writes.
pub(super) fn fenced_s3(program: &DriverProgram) {
    let (interpreter, folder) = (python(S3), Folder::new().expect("a folder"));
    let address = suffrage_testbed::address();
    let mut command = Command::new(&interpreter);
    let (host, port) = (address.ip().to_string(), address.port().to_string());
    command.args(["-m", "moto.server", "-H", &host, "-p", &port]);
    let _server = Server::start(&mut command, &folder.path().join("log"));
    let bucket = format!("http://{address}/{BUCKET}");
    until("there is a bucket", || ureq::put(&bucket).send_empty().ok());
    let environment = vec![
        ("AWS_ENDPOINT_URL_S3", format!("http://{address}")),
        ("AWS_ACCESS_KEY_ID", "test".to_string()),
        ("AWS_SECRET_ACCESS_KEY", "test".to_string()),
        ("AWS_DEFAULT_REGION", "us-east-1".to_string()),
        ("BUCKET", BUCKET.to_string()),
    ];
    let path = program.example("fenced_s3").expect("it exists");
    let example = Example { path, interpreter, environment };
    fenced(&example, || {
        let read = "import boto3; print(boto3.client('s3').get_object(Bucket='ledger', Key='ledger.json')['Body'].read().decode())";
        let mut command = Command::new(&example.interpreter);
        command.args(["-c", read]).envs(example.environment.iter().map(|(key, value)| (*key, value)));
        let output = command.output().expect("python runs");
        let ledger: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        serde_json::from_value(ledger["entries"].clone()).expect("tokens")
    });
}

/// A file whose writers hold an advisory lock.
pub(super) fn fenced_file(program: &DriverProgram) {
    let folder = Folder::new().expect("a folder");
    let ledger = folder.path().join("ledger.txt");
    let path = program.example("fenced_file").expect("it exists");
    let environment = vec![("LEDGER", ledger.display().to_string())];
    let example = Example { path, interpreter: Path::new("python3").into(), environment };
    fenced(&example, || parse(&fs::read_to_string(&ledger).expect("the ledger exists")));
}

/// The tokens in a text, one per line.
fn parse(text: &str) -> Vec<u64> {
    text.lines().map(|line| line.parse().expect("a token")).collect()
}

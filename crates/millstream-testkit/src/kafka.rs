//! A real broker of Kafka, from its published jars.

use crate::certificate::Certificates;
use crate::kernel_package::named;
use crate::need::{Need, machine_has};
use crate::port::Port;
use crate::proxy::Proxy;
use crate::wait::until;
use millstream_host::{Child, Command};
use std::net::TcpStream;
use std::path::{Path, PathBuf};

/// A running broker, alone in its cluster; it ends when dropped.
#[derive(Debug)]
pub struct KafkaBroker {
    jars: PathBuf,
    child: Option<Child>,
    plain: Port,
    secure: Port,
    far: Proxy,
    behind: Port,
    controller: Port,
    dir: tempfile::TempDir,
}

/// Another broker of the cluster; it is killed when dropped.
#[derive(Debug)]
pub struct SecondBroker {
    _child: Child,
    _port: Port,
    _dir: tempfile::TempDir,
}

/// What names the cluster.
const CLUSTER: &str = "MkU3OEVBNTcwNTJENDM2Qg";

/// Who may use the encrypted port.
const USER: &str = "loader";
const PASSWORD: &str = "sEcret-7";

/// What the settings of a broker have beside its ports and its certificate. One broker is enough for all of it, it looks for
/// what can be compacted or removed without a pause, and members of a group that are silent count as gone within seconds.
const SETTINGS: &str = "\
process.roles=broker,controller
node.id=1
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,FAR:PLAINTEXT,SASL_SSL:SASL_SSL
sasl.enabled.mechanisms=SCRAM-SHA-512
listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.sasl_ssl.ssl.keystore.type=PEM
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
auto.create.topics.enable=false
log.cleaner.backoff.ms=100
log.retention.check.interval.ms=500
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=1000
group.consumer.min.session.timeout.ms=1000
group.consumer.session.timeout.ms=4000
group.consumer.min.heartbeat.interval.ms=100
group.consumer.heartbeat.interval.ms=500
";

impl KafkaBroker {
    /// Starts one. `None`, after [`skip`](crate::skip), without Java or the jars, whose directory `MILLSTREAM_TEST_KAFKA`
    /// names.
    ///
    /// # Panics
    /// If it ends at once.
    pub async fn start() -> Option<Self> {
        let jars = named("MILLSTREAM_TEST_KAFKA", "directory with the jars of Kafka")?;
        if !machine_has(&[Need::JAVA]) {
            return None;
        }
        let dir = tempfile::tempdir().expect("a directory");
        let (plain, secure, behind, controller) = (Port::new(), Port::new(), Port::new(), Port::new());
        let certificates = Certificates::new(&["localhost", "127.0.0.1"], USER);
        let at = |port: &Port| format!("127.0.0.1:{}", port.number);
        let far = Proxy::start(at(&behind)).await;
        let near = format!("PLAINTEXT://{},SASL_SSL://{}", at(&plain), at(&secure));
        // A property is one line.
        let line = |pem: &str| pem.replace('\n', "\\n");
        let settings = format!(
            "{SETTINGS}controller.quorum.voters=1@{controller}\n\
             listeners={near},FAR://{behind},CONTROLLER://{controller}\n\
             advertised.listeners={near},FAR://{far}\nlog.dirs={dir}/data\n\
             listener.name.sasl_ssl.ssl.keystore.certificate.chain={certificate}\n\
             listener.name.sasl_ssl.ssl.keystore.key={key}\n",
            behind = at(&behind),
            far = far.address,
            controller = at(&controller),
            dir = dir.path().display(),
            certificate = line(&certificates.server),
            key = line(&certificates.server_key),
        );
        std::fs::write(dir.path().join("server.properties"), settings).expect("written");
        std::fs::write(dir.path().join("ca.pem"), &certificates.root).expect("written");
        let user = format!("SCRAM-SHA-512=[name={USER},password={PASSWORD}]");
        let mut format = java(&jars, "kafka.tools.StorageTool");
        format.args(["format", "-t", CLUSTER, "--add-scram", user.as_str(), "-c"]);
        let formatted = format.arg(dir.path().join("server.properties")).run_blocking();
        formatted.and_then(millstream_host::Ended::succeeded).expect("its directory is formatted");
        let mut broker = Self { jars, child: None, plain, secure, far, behind, controller, dir };
        broker.start_again().await;
        Some(broker)
    }

    /// Starts another broker of the cluster.
    ///
    /// # Panics
    /// If it ends at once.
    pub async fn start_second(&self) -> SecondBroker {
        let (port, dir) = (Port::new(), tempfile::tempdir().expect("a directory"));
        let (number, controller, place) = (port.number, self.controller.number, dir.path().display());
        let settings = format!(
            "process.roles=broker\nnode.id=2\ncontroller.listener.names=CONTROLLER\n\
             controller.quorum.voters=1@127.0.0.1:{controller}\nlisteners=PLAINTEXT://127.0.0.1:{number}\n\
             listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT\nlog.dirs={place}/data\n"
        );
        let file = dir.path().join("server.properties");
        std::fs::write(&file, settings).expect("written");
        let mut format = java(&self.jars, "kafka.tools.StorageTool");
        let formatted = format.args(["format", "-t", CLUSTER, "-c"]).arg(&file).run_blocking();
        formatted.and_then(millstream_host::Ended::succeeded).expect("its directory is formatted");
        let mut child = java(&self.jars, "kafka.Kafka").arg(&file).start().expect("it starts");
        until("the second broker answers", async || {
            assert_eq!(child.ended(), None, "the broker ended at once");
            TcpStream::connect(("127.0.0.1", number)).is_ok()
        })
        .await;
        SecondBroker { _child: child, _port: port, _dir: dir }
    }

    /// Starts it again.
    ///
    /// # Panics
    /// If it ends at once.
    pub async fn start_again(&mut self) {
        let mut command = java(&self.jars, "kafka.Kafka");
        let child = command.arg(self.dir.path().join("server.properties")).start().expect("it starts");
        self.child = Some(child);
        until("the broker answers at its ports", async || {
            let ended = self.child.as_mut().and_then(Child::ended);
            assert_eq!(ended, None, "the broker ended at once");
            [&self.plain, &self.secure].iter().all(|port| TcpStream::connect(("127.0.0.1", port.number)).is_ok())
        })
        .await;
    }

    /// Kills it.
    pub fn kill(&mut self) {
        self.child = None;
    }

    /// Host and port, without encryption.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.plain.number)
    }

    /// The proxy through which clients that begin there do everything. Its address is that of another broker to them.
    pub fn far(&self) -> &Proxy {
        &self.far
    }

    /// Host and port of the listener behind that proxy. It gives the proxy's address to its clients.
    pub fn behind_far(&self) -> String {
        format!("127.0.0.1:{}", self.behind.number)
    }

    /// Host and port where connections are encrypted, and clients prove who they are.
    pub fn secure_address(&self) -> String {
        format!("localhost:{}", self.secure.number)
    }

    /// Settings of a client for that port.
    pub fn secure_settings(&self) -> String {
        format!(
            "security.protocol=sasl_ssl\nsasl.mechanism=SCRAM-SHA-512\nsasl.username={USER}\nsasl.password={PASSWORD}\n\
             ssl.ca.location={}/ca.pem\n",
            self.dir.path().display()
        )
    }
}

fn java(jars: &Path, class: &str) -> Command {
    let mut command = Command::new("java");
    command.args(["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp"]);
    command.arg(format!("{}/*", jars.display())).arg(class);
    command
}

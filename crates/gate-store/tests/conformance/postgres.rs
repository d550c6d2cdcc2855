//! What only a server can do: serve several, be restarted, lose a connection, be full.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use gate_cluster::{Cluster, Database};
use gate_store::{
    PostgresAddress, PostgresStore, Reads, Snapshot, Store, StoreError, Write, verify,
};

use crate::races::{race, spent, write};
use crate::world::{Says, StillClock, address, agent, audit, cell, of_agent, run};

/// Ends every connection to a database but that which asks.
const END_ALL: &str = "SELECT COUNT(pg_terminate_backend(pid)) FROM pg_stat_activity
                       WHERE datname = current_database() AND pid <> pg_backend_pid()";
/// Ends one of them, whichever.
const END_ONE: &str = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                       WHERE datname = current_database() AND pid <> pg_backend_pid()
                       ORDER BY random() LIMIT 1";

async fn open(database: &Database) -> PostgresStore {
    PostgresStore::open(&address(database)).await.unwrap()
}

/// A database in which it is the day that is reserved for.
fn on_that_day(cluster: &Cluster) -> Database {
    let database = cluster.database();
    StillClock::of_database(cluster, &database);
    database
}

async fn two(database: &Database) -> [Arc<dyn Store>; 2] {
    [Arc::new(open(database).await), Arc::new(open(database).await)]
}

async fn entries(store: &dyn Store) -> u64 {
    let seen = store
        .read(Reads { audit: Some(gate_store::AuditRange::WHOLE), ..Reads::default() })
        .await
        .unwrap();
    verify(&seen.audit).unwrap().n
}

/// A judge that makes one entry, and something else of its own at its first asking.
struct Once<F>(Mutex<Option<F>>, AtomicU32);

impl<F: FnOnce() + Send> Once<F> {
    fn new(first: F) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Some(first)), AtomicU32::new(0)))
    }

    fn asked(&self) -> u32 {
        self.1.load(Ordering::SeqCst)
    }
}

impl<F: FnOnce() + Send> gate_store::Judge for Once<F> {
    fn judge(&self, _: gate_core::Timestamp, _: &Snapshot) -> Vec<Write> {
        self.1.fetch_add(1, Ordering::SeqCst);
        if let Some(first) = self.0.lock().unwrap().take() {
            first();
        }
        vec![audit(1)]
    }
}

#[test]
fn two_hundred_at_once_never_exceed_the_cap() {
    run(async {
        let stores = two(&on_that_day(Cluster::shared())).await;
        write(&*stores[0], vec![Write::PutAgent(agent(1))]).await.unwrap();
        for answer in race(&stores, 200, 50).await {
            answer.unwrap();
        }
        assert_eq!(spent(&stores).await, [50, 50]);
        let commits: u64 = stores.iter().map(|store| store.commits()).sum();
        assert_eq!(commits, 51, "and the agent's");
    });
}

#[test]
fn connections_that_end_at_random_leave_the_sums_right() {
    let (cluster, database) = (Cluster::shared(), on_that_day(Cluster::shared()));
    run(async {
        let stores = two(&database).await;
        write(&*stores[0], vec![Write::PutAgent(agent(1))]).await.unwrap();
        let (done, name) = (Arc::new(AtomicU32::new(0)), database.name.clone());
        let seen = done.clone();
        let killer = std::thread::spawn(move || {
            let mut ended = 0;
            while seen.load(Ordering::SeqCst) == 0 {
                ended += cluster.sql(&name, END_ONE).lines().count();
            }
            ended
        });
        let answers = race(&stores, 200, 120).await;
        done.store(1, Ordering::SeqCst);
        let ended = killer.join().unwrap();
        let told = answers.iter().filter(|answer| answer.is_ok()).count();
        let [spent, same] = spent(&stores).await;
        assert!(ended > 0 && spent <= 120 && spent == same, "{ended} ended, {spent} spent");
        // Those who were told of success are all there, be it that the cap was reached.
        let lost = answers.len() - told;
        assert!(spent == 120 || usize::try_from(spent).unwrap() >= told, "{spent}, {lost} lost");
        for answer in answers.into_iter().filter(Result::is_err) {
            assert_eq!(cell(answer), "unavailable");
        }
    });
}

#[test]
fn stores_hear_of_each_other_also_after_a_loss() {
    let (cluster, database) = (Cluster::shared(), Cluster::shared().database());
    run(async {
        let [one, two] = two(&database).await;
        for (n, (writer, reader)) in (1..).zip([(&one, &two), (&two, &one), (&one, &two)]) {
            let mut changes = reader.changes();
            changes.mark();
            write(&**writer, vec![audit(n)]).await.unwrap();
            changes.changed().await;
            assert_eq!(entries(&**reader).await, u64::from(n));
        }
        let mut changes = two.changes();
        changes.mark();
        assert_ne!(cluster.sql(&database.name, END_ALL), "0\n");
        // Whoever waits is woken by the loss itself, and by commits soon after.
        changes.changed().await;
        for n in 4..7 {
            changes.mark();
            write(&*one, vec![audit(n)]).await.unwrap();
            while entries(&*two).await < u64::from(n) {
                changes.changed().await;
                changes.mark();
            }
        }
    });
}

#[test]
fn a_transaction_that_lost_its_connection_is_made_anew() {
    let (cluster, database) = (Cluster::shared(), Cluster::shared().database());
    run(async {
        let store = open(&database).await;
        let judge = Once::new(move || drop(cluster.sql(&database.name, END_ALL)));
        store.transact(Reads::default(), judge.clone()).await.unwrap();
        assert_eq!((judge.asked(), entries(&store).await, store.commits()), (2, 1, 1));
    });
}

#[test]
fn a_server_that_restarts_in_the_middle_is_recovered_from() {
    let cluster = Arc::new(Cluster::start());
    let database = cluster.database();
    run(async {
        let stores = two(&database).await;
        write(&*stores[0], vec![audit(1)]).await.unwrap();
        let restarted = cluster.clone();
        let judge = Once::new(move || restarted.restart());
        stores[0].transact(Reads::default(), judge.clone()).await.unwrap();
        assert_eq!(judge.asked(), 2);
        for store in &stores {
            assert_eq!(entries(&**store).await, 2);
        }
        cluster.restart();
        write(&*stores[1], vec![audit(3)]).await.unwrap();
        assert_eq!(entries(&*stores[0]).await, 3);
    });
}

/// F32: the commit is durable, and its answer is lost.
#[test]
fn a_commit_whose_answer_is_lost_is_told_as_unknown() {
    let cluster = Arc::new(Cluster::start());
    let database = cluster.database();
    let waiting = "SELECT COUNT(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
    run(async {
        let store = open(&database).await;
        let follower = "ALTER SYSTEM SET synchronous_standby_names = 'a_follower_that_is_away'";
        cluster.sql("postgres", follower);
        cluster.restart();
        let (others, name) = (cluster.clone(), database.name.clone());
        let killer = std::thread::spawn(move || {
            while others.sql("postgres", waiting) != "1\n" {}
            others.sql(&name, END_ALL);
        });
        let told = write(&store, vec![audit(1)]).await.unwrap_err().to_string();
        killer.join().unwrap();
        assert!(told.contains("whether it was committed is not known: read before"), "{told}");
        assert_eq!((entries(&store).await, store.commits()), (1, 0));
    });
}

#[test]
fn what_others_win_is_tried_again_and_not_for_ever() {
    let (cluster, database) = (Cluster::shared(), Cluster::shared().database());
    run(async {
        let store = open(&database).await;
        // The first `n` transactions that write an entry lose against another.
        let lose = "
            CREATE SEQUENCE losses;
            CREATE TABLE lost (n BIGINT, code TEXT);
            CREATE FUNCTION lose() RETURNS TRIGGER LANGUAGE plpgsql AS $$
            BEGIN
                IF nextval('losses') <= (SELECT n FROM lost) THEN
                    RAISE EXCEPTION 'lost' USING ERRCODE = (SELECT code FROM lost);
                END IF;
                RETURN NEW;
            END $$;
            CREATE TRIGGER lose BEFORE INSERT ON audit FOR EACH ROW EXECUTE FUNCTION lose()";
        cluster.sql(&database.name, lose);
        let table = [
            // losses, their code, how often the judge is asked, how it ends
            (0, "40001", 1, "done"),
            (1, "40001", 2, "done"),
            (4, "40P01", 5, "done"),
            (5, "40001", 5, "unavailable"),
            (1, "53100", 1, "unavailable"),
            (1, "XX001", 1, "corrupt"),
        ];
        let mut made = 0;
        for (losses, code, asked, expected) in table {
            let set = format!(
                "DELETE FROM lost; INSERT INTO lost VALUES ({losses}, '{code}');
                 ALTER SEQUENCE losses RESTART"
            );
            cluster.sql(&database.name, &set);
            let judge = Once::new(|| ());
            let found = cell(store.transact(Reads::default(), judge.clone()).await);
            made += u64::from(expected == "done");
            let found = (found, judge.asked(), entries(&store).await);
            assert_eq!(found, (expected, asked, made), "{losses} losses, {code}");
        }
    });
}

#[test]
fn a_full_server_says_so_and_is_asked_again() {
    let (cluster, database) = (Cluster::shared(), Cluster::shared().database());
    let name = &database.name;
    let few = format!(
        "CREATE ROLE few_{name} LOGIN CONNECTION LIMIT 2; GRANT ALL ON SCHEMA public TO few_{name}"
    );
    cluster.sql(name, &few);
    let url = database.url.replace("//gate@", &format!("//few_{name}@"));
    let address = PostgresAddress::parse(&url).unwrap();
    run(async {
        // One that writes and one that listens: none is left to read.
        let first = PostgresStore::open(&address).await.unwrap();
        let full = "the store cannot be used: PostgreSQL: too many connections for role";
        let told = first.read(Reads::default()).await.unwrap_err().to_string();
        assert!(told.starts_with(full), "{told}");
        assert!(told.ends_with("; raise its max_connections, or start fewer gateways"), "{told}");
        write(&first, vec![audit(1)]).await.unwrap();
        cluster.sql(name, &format!("ALTER ROLE few_{name} CONNECTION LIMIT 3"));
        assert_eq!(entries(&first).await, 1);
    });
}

#[test]
fn what_cannot_be_opened_says_why() {
    let cluster = Cluster::shared();
    let database = cluster.database();
    let latin = format!("{}_latin", database.name);
    let make = format!(
        "CREATE DATABASE {latin} ENCODING 'LATIN1' LOCALE_PROVIDER libc LOCALE 'C' TEMPLATE template0"
    );
    cluster.sql("postgres", &make);
    let url = |from: &str, to: &str| database.url.replacen(from, to, 1);
    let authority = cluster.authority();
    let trusted = format!("sslrootcert={}", authority.display());
    let tcp = &database.tcp_url;
    let named = tcp.replace("127.0.0.1", "localhost");
    let table = [
        (database.url.clone(), "good"),
        (tcp.clone(), "good"),
        (format!("{named}?sslmode=require&{trusted}"), "good"),
        // The certificate is for `localhost`.
        (format!("{tcp}?sslmode=require&{trusted}"), "certificate not valid for name"),
        (format!("{named}?sslmode=require"), "UnknownIssuer"),
        (format!("{named}?sslmode=require&sslrootcert=%2Fnone.pem"), "sslrootcert /none.pem"),
        (url(&database.name, "nowhere"), "database \"nowhere\" does not exist; make the database"),
        (url(&database.name, &latin), "encoding is LATIN1, and must be UTF8"),
        (url("//gate@", "//nobody@"), "role \"nobody\" does not exist; see the user"),
        ("postgres://gate:pw@127.0.0.1:1/g".to_owned(), "see that PostgreSQL runs"),
    ];
    for (url, expected) in table {
        let opened = run(PostgresStore::open(&PostgresAddress::parse(&url).unwrap()));
        let found = opened.map_or_else(|error| error.to_string(), |_| "good".to_owned());
        assert!(found.contains(expected) && !found.contains("pw"), "{url}: {found}");
    }
}

#[test]
fn the_way_is_encrypted_when_the_address_says_so() {
    let (cluster, database) = (Cluster::shared(), Cluster::shared().database());
    let named = database.tcp_url.replace("127.0.0.1", "localhost");
    let authority = cluster.authority();
    let url = format!("{named}?sslmode=require&sslrootcert={}", authority.display());
    run(async {
        let store = PostgresStore::open(&PostgresAddress::parse(&url).unwrap()).await.unwrap();
        write(&store, vec![audit(1)]).await.unwrap();
        let plain = "SELECT COUNT(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)
                     WHERE datname = current_database() AND pid <> pg_backend_pid() AND NOT ssl";
        assert_eq!(cluster.sql(&database.name, plain), "0\n");
        assert_eq!(entries(&store).await, 1);
    });
}

/// PostgreSQL keeps no NUL in a text.
#[test]
fn a_text_that_cannot_be_kept_is_refused() {
    run(async {
        let store = open(&Cluster::shared().database()).await;
        let mut row = agent(1);
        row.keys[0].hint = "a\0b".to_owned();
        let refused = write(&store, vec![Write::PutAgent(row)]).await;
        assert!(matches!(refused, Err(StoreError::Conflict(_))), "{refused:?}");
        let seen = store.read(of_agent(1)).await.unwrap();
        assert!(seen.agent.is_none());
        let judge = Says(|_, _: &Snapshot| vec![audit(1)]);
        store.transact(Reads::default(), Arc::new(judge)).await.unwrap();
    });
}

//! A bench as short as can be: what it finds makes sense, and its JSON says it.

use uniperf_harness::bench::{self, Case, Contestant, Metric, Only, Options};
use uniperf_harness::{Accelerator, Image, NicModel, Test};

#[test]
fn a_short_bench_measures_the_appliance_and_the_ceiling() {
    let options = Options {
        image: Image::built().unwrap(),
        nic: NicModel::E1000,
        accelerator: Accelerator::Tcg,
        append: String::new(),
        linux: false,
        rounds: 1,
        seconds: 1,
        icount: false,
        few_flows: false,
        only: vec![Only::Netperf(Test::TcpRr)],
    };
    let report = bench::run(&options).unwrap();
    print!("{}", bench::render(&report));
    let rate = |contestant, case| {
        let rate = report.summary(contestant, case, Metric::Rate);
        rate.unwrap().median
    };
    assert!(rate(Contestant::Uniperf, Case::Netperf(Test::TcpRr)) > 100.0);
    assert!(rate(Contestant::Reflect, Case::PING_BYTE) > 100.0);

    let folder = tempfile::tempdir().unwrap();
    let path = bench::save(&report, folder.path()).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    let latest = std::fs::read_to_string(folder.path().join("latest.json")).unwrap();
    assert_eq!(text, latest);
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json["schema"], bench::SCHEMA);
    assert_eq!(json["settings"]["nic"], "e1000");
    assert_eq!(json["versions"]["uniperf"], env!("CARGO_PKG_VERSION"));
    let results = json["results"].as_array().unwrap();
    let tests: Vec<_> = results
        .iter()
        .map(|result| (result["contestant"].as_str(), result["test"].as_str()))
        .collect();
    assert!(tests.contains(&(Some("uniperf"), Some("TCP_RR 1,1"))));
    assert!(tests.contains(&(Some("reflect"), Some("ping UDP 1"))));
    assert!(results[0]["rate"]["median"].as_f64().unwrap() > 100.0);
    assert!(results[0]["service_demand"]["median"].as_f64().unwrap() > 0.0);
    let goals = json["goals"].as_array().unwrap();
    let ceiling = |goal: &&serde_json::Value| goal["against"]["contestant"] == "reflect";
    assert!(goals.iter().find(ceiling).unwrap()["figure"].is_f64());
}

#[test]
fn instructions_are_counted() {
    let options = Options {
        image: Image::built().unwrap(),
        nic: NicModel::E1000,
        accelerator: Accelerator::Tcg,
        append: "rx=napi".into(),
        linux: false,
        rounds: 1,
        seconds: 1,
        icount: true,
        few_flows: false,
        only: vec![Only::Netperf(Test::UdpRr)],
    };
    let report = bench::run(&options).unwrap();
    print!("{}", bench::render(&report));
    let count = |contestant, case| {
        let count = report.summary(contestant, case, Metric::Instructions);
        count.unwrap().median
    };
    let own = count(Contestant::Uniperf, Case::Netperf(Test::UdpRr));
    let floor = count(Contestant::Reflect, Case::PING);
    assert!((100.0..100_000.0).contains(&floor), "{floor}");
    assert!(own > floor, "a stack costs something: {own} and {floor}");
}

/// A transaction must not cost more instructions with more connections open.
#[test]
fn cost_does_not_grow_with_connections() {
    let options = Options {
        image: Image::built().unwrap(),
        nic: NicModel::E1000,
        accelerator: Accelerator::Tcg,
        append: "rx=napi".into(),
        linux: false,
        rounds: 1,
        seconds: 1,
        icount: true,
        few_flows: false,
        only: vec![Only::Flows],
    };
    let report = bench::run(&options).unwrap();
    print!("{}", bench::render(&report));
    assert!(report.failures.is_empty(), "{:?}", report.failures);
    let count = |case| {
        let count = report.summary(Contestant::Uniperf, case, Metric::Instructions);
        count.unwrap().median
    };
    let (one, most) = (count(Case::Flows(1)), count(Case::Flows(10_000)));
    assert!(most < 1.2 * one, "{most} instructions instead of {one}");
    // Another frame has to be received for each of these.
    let scattered = count(Case::Scattered(10_000));
    assert!(scattered < 2.0 * one, "{scattered} instead of {one}");
}

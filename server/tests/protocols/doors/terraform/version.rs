//! Tests of the earlier versions of a state.

use leasehold_testkit::settings;

use crate::doors::terraform::{A, Scene, info};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_versions_are_kept_and_can_be_gone_back_to() {
    let scene =
        Scene::with(settings(None), |settings| settings.dialect.terraform.versions = 3).await;
    for n in 1..=5 {
        let written = scene.send("POST /terraform/team%2Fapp", format!("{{\"serial\":{n}}}")).await;
        assert_eq!(written.number("version"), n);
    }
    let versions = async || {
        let listed = scene.get("/terraform/team%2Fapp/versions").await;
        let versions = listed.get("versions").as_array().unwrap().clone();
        assert_eq!(listed.text_of("state"), "team/app");
        versions.iter().map(|version| version["version"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(versions().await, [5, 4, 3]);
    let old = scene.get("/terraform/team%2Fapp/versions/3").await;
    assert_eq!((old.status, old.text.as_str()), (200, "{\"serial\":3}"));
    scene.is(&scene.get("/terraform/team%2Fapp/versions/2").await, 404);
    let restore = "POST /terraform/team%2Fapp/versions/3/restore";
    let restored = scene.send(restore, "").await;
    assert_eq!((restored.status, restored.number("version")), (200, 6));
    assert_eq!(scene.get("/terraform/team%2Fapp").await.text, "{\"serial\":3}");
    assert_eq!(versions().await, [6, 5, 4]);
    // While the state is locked, only the holder can restore a version.
    scene.is(&scene.send("LOCK /terraform/team%2Fapp", info(A, "ann@laptop")).await, 200);
    let restore = "POST /terraform/team%2Fapp/versions/5/restore";
    scene.is(&scene.send(restore, "").await, 423);
    scene.is(&scene.send(&format!("{restore}?ID={A}"), "").await, 200);
    let all = scene.get("/terraform").await;
    let state = &all.get("states")[0];
    assert_eq!((&state["state"], &state["locked_by"]), (&"team/app".into(), &"ann@laptop".into()));
    assert_eq!(state["latest"]["version"], 7, "{all:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_may_be_long_and_have_anything_in_it() {
    let scene = Scene::new().await;
    let names = ["%2F".repeat(512), "a".repeat(512), "..".into(), "a%2B".into(), "%00%0A".into()];
    for name in &names {
        scene.is(&scene.send(&format!("POST /terraform/{name}"), name.clone()).await, 200);
    }
    for name in &names {
        assert_eq!(&scene.get(&format!("/terraform/{name}")).await.text, name);
    }
    let all = scene.get("/terraform").await;
    assert_eq!(all.get("states").as_array().unwrap().len(), names.len(), "{all:?}");
}

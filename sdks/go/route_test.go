package leasehold

import (
	"net/http"
	"reflect"
	"strings"
	"testing"
)

func routesOf(t *testing.T, options Options) *routes {
	t.Helper()
	settings, err := options.settings(environment(nil))
	must(t, err)
	return newRoutes(settings)
}

func (t *trip) isAt(url string, isDirect bool) bool { return t.at == url && t.isDirect == isDirect }

func TestEveryURLIsTriedOnceIfNoneIsThere(t *testing.T) {
	known := routesOf(t, Options{URLs: []string{"http://a,http://b", "http://c"}})
	known.begin().failed()
	trip := known.begin()
	seen := []string{trip.at}
	for trip.goOn() {
		seen = append(seen, trip.at)
	}
	if !reflect.DeepEqual(seen, []string{"http://b", "http://c", "http://a"}) {
		t.Fatal(seen)
	}
}

func TestThoseThatFailTogetherMoveOnByOne(t *testing.T) {
	known := routesOf(t, Options{URLs: []string{"http://a,http://b,http://c"}})
	for _, trip := range []*trip{known.begin(), known.begin(), known.begin()} {
		trip.failed()
	}
	if trip := known.begin(); trip.at != "http://b" {
		t.Fatal(trip.at)
	}
}

func TestALeaderIsFollowedToWhereItWasGiven(t *testing.T) {
	known := routesOf(t, Options{URLs: []string{"http://a,http://b,http://C:80/x/"}})
	trip := known.begin()
	if !trip.goOnFromFollower("http://c/x") || !trip.isAt("http://c/x", true) {
		t.Fatal(trip)
	}
	trip.wasAnswered()
	if trip := known.begin(); trip.at != "http://c/x" {
		t.Fatal(trip)
	}
}

func TestALeaderThatWasNotGivenIsLeftToThoseThatKnowIt(t *testing.T) {
	for _, leader := range []string{"http://evil", "unix:/run/a.sock", "b", "https://a", "http://a/other", "http://x:y@a", ""} {
		known := routesOf(t, Options{URLs: []string{"http://a,http://b"}})
		trip := known.begin()
		if !trip.goOnFromFollower(leader) || !trip.isAt("http://b", true) {
			t.Fatal(leader, trip)
		}
		if !trip.goOnFromFollower(leader) || !trip.isAt("http://b", false) {
			t.Fatal("it passes it on", leader, trip)
		}
		trip.wasAnswered()
		if trip := known.begin(); !trip.isAt("http://b", false) {
			t.Fatal("and so for a while", leader, trip)
		}
		if trip.goOnFromFollower(leader) {
			t.Fatal(leader, trip)
		}
	}
}

func TestALeaderThatIsGoneIsNotAskedTwice(t *testing.T) {
	trip := routesOf(t, Options{URLs: []string{"http://a,http://b"}}).begin()
	if !trip.goOn() || !trip.goOnFromFollower("http://a") || !trip.isAt("http://b", false) || trip.goOn() {
		t.Fatal(trip)
	}
}

func TestAnyLeaderIsFollowedIfThatIsMeantAndNeverToLessSafety(t *testing.T) {
	known := routesOf(t, Options{URLs: []string{"http://a"}, FollowAnyLeader: true})
	trip := known.begin()
	if !trip.isDirect || !trip.goOnFromFollower("http://n7:81/") || trip.at != "http://n7:81" {
		t.Fatal(trip)
	}
	trip.wasAnswered()
	if trip = known.begin(); trip.at != "http://n7:81" || !trip.goOn() || trip.at != "http://a" {
		t.Fatal("back to what was given", trip)
	}
	trip = routesOf(t, Options{URLs: []string{"https://a,https://b"}, FollowAnyLeader: true}).begin()
	if !trip.goOnFromFollower("http://c") || trip.at != "https://b" {
		t.Fatal(trip)
	}
}

func TestAnyLeaderIsNotFollowedWithCredentials(t *testing.T) {
	for _, options := range []Options{{APIKey: "key"}, {ClientCertFile: "a.pem", ClientKeyFile: "b.pem"}} {
		options.URLs, options.FollowAnyLeader = []string{"http://127.0.0.1:1"}, true
		if _, err := options.settings(environment(nil)); err == nil || !strings.Contains(err.Error(), "only to servers whose URLs are given") {
			t.Error(err)
		}
	}
}

func TestAListThatMakesNoSenseIsRefused(t *testing.T) {
	for list, why := range map[string]string{
		",": "a URL is empty", "http://a,": "a URL is empty", "http://a,,http://b": "a URL is empty",
		"http://a,http://A:80/": "is given twice", "unix:/a,unix:///a": "is given twice",
	} {
		_, err := Options{}.settings(environment(map[string]string{"LEASEHOLD_URL": list}))
		if err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v", list, err)
		}
	}
}

func TestAFollowerIsAskedWhoLeadsAndThenToPassItOn(t *testing.T) {
	refuse := refusing(421, "NOT_LEADER")
	follower := newStub(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Leasehold-Direct") == "1" {
			refuse(w, r)
		} else {
			good(w, r)
		}
	})
	look(t, clientOf(t, follower.URL, "http://127.0.0.1:1"), "a")
	if follower.n() != 2 {
		t.Fatal(follower.n())
	}
	look(t, clientOf(t, follower.URL), "a")
	if follower.n() != 3 {
		t.Fatal(follower.n())
	}
}

func TestAllThatCannotBeReachedAreNamed(t *testing.T) {
	_, err := clientOf(t, "http://127.0.0.1:1", "http://127.0.0.1:2").Look(background(t), "a")
	if err == nil || !strings.Contains(err.Error(), "http://127.0.0.1:1") || !strings.Contains(err.Error(), "http://127.0.0.1:2") {
		t.Fatal(err)
	}
}

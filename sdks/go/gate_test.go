package leasehold

import (
	"errors"
	"reflect"
	"testing"
)

func TestAGateLetsThroughWhatIsNotOlderThanTheNewestSeen(t *testing.T) {
	var gate Gate
	var file []string
	write := func(resource string, token uint64, text string) error {
		return gate.Write(resource, token, func() error {
			file = append(file, text)
			return nil
		})
	}
	for _, err := range []error{write("a", 7, "seven"), write("a", 8, "eight"), write("a", 8, "again"), write("b", 1, "other")} {
		if err != nil {
			t.Fatal(err)
		}
	}
	var stale *StaleError
	if err := write("a", 7, "late"); !errors.As(err, &stale) || stale.Token != 7 || stale.Newest != 8 {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(file, []string{"seven", "eight", "again", "other"}) {
		t.Fatal(file)
	}
}

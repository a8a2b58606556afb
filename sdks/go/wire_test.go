package leasehold

import (
	"encoding/json"
	"os"
	"reflect"
	"regexp"
	"sort"
	"strings"
	"testing"
)

// contract is what docs/openapi.json says of a shape.
type contract struct {
	Type       any                 `json:"type"`
	Ref        string              `json:"$ref"`
	Required   []string            `json:"required"`
	Properties map[string]contract `json:"properties"`
	Items      *contract           `json:"items"`
	AnyOf      []contract          `json:"anyOf"`
	OneOf      []contract          `json:"oneOf"`
	AllOf      []contract          `json:"allOf"`
}

// UnmarshalJSON: `true` is a shape too, that of anything.
func (c *contract) UnmarshalJSON(text []byte) error {
	if string(text) == "true" {
		return nil
	}
	type plain contract
	return json.Unmarshal(text, (*plain)(c))
}

var shapes = map[string]any{
	"AcquireAllRequest": acquireAllRequest{}, "AcquireRequest": acquireRequest{}, "Acquired": acquired{},
	"AcquiredAll": acquiredAll{}, "CancelRequest": cancelRequest{}, "Cancelled": cancelled{}, "Event": Event{},
	"Failure": Failure{}, "FenceCheck": fenceCheck{}, "FenceVerdict": FenceVerdict{}, "Gap": gap{},
	"GrantedLease": heldLease{}, "HeldLease": heldLease{}, "History": History{}, "Holder": Holder{}, "KeptAlive": keptAlive{},
	"LockList": LockList{}, "LockState": LockState{}, "NotAcquired": NotAcquired{}, "NotReleased": NotReleased{},
	"NotRenewed": NotRenewed{}, "NotRenewedAll": notRenewedAll{}, "OpenSessionRequest": openSessionRequest{}, "PastEvent": PastEvent{},
	"ReleaseAllRequest": releaseAllRequest{}, "ReleaseRequest": releaseRequest{}, "Released": released{},
	"ReleasedAll": releasedAll{}, "ReleasedLease": releasedLease{}, "RenewAllRequest": renewAllRequest{},
	"RenewRequest": renewRequest{}, "Renewed": renewed{}, "RevokeRequest": revokeRequest{}, "Revoked": Revoked{},
	"RevokedLease": RevokedLease{}, "SessionOpened": sessionOpened{}, "Waiter": Waiter{}, "WantedLock": wantedLock{},
	"WatchLeaseRequest": watchLeaseRequest{}, "RevokeAllRequest": RevokeAllRequest{}, "RevokedAll": RevokedAll{},
	"RevokedFrom": RevokedFrom{}, "BackupTaken": BackupTaken{},
}

func readContracts(t *testing.T) map[string]contract {
	text, err := os.ReadFile("../../docs/openapi.json")
	must(t, err)
	var document struct {
		Components struct {
			Schemas map[string]contract `json:"schemas"`
		} `json:"components"`
	}
	must(t, json.Unmarshal(text, &document))
	return document.Components.Schemas
}

func TestTheWireTypesAreThoseOfTheContract(t *testing.T) {
	contracts := readContracts(t)
	for name, shape := range shapes {
		said, isThere := contracts["locks."+name]
		if !isThere {
			t.Errorf("%s is not in the contract", name)
			continue
		}
		for _, difference := range differences(contracts, said, reflect.TypeOf(shape)) {
			t.Errorf("%s: %s", name, difference)
		}
	}
}

// differences between a shape of the contract and a struct.
func differences(contracts map[string]contract, said contract, shape reflect.Type) []string {
	properties, required := said.flat(contracts)
	var found []string
	for _, field := range reflect.VisibleFields(shape) {
		if field.Anonymous {
			continue
		}
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		property, isThere := properties[name]
		switch {
		case !isThere:
			found = append(found, name+" is not in the contract")
		case required[name] == (options == "omitempty"):
			found = append(found, name+" is required in one and not in the other")
		case !isSame(kindOf(field.Type), property.kind(contracts), options == "omitempty"):
			found = append(found, name+" is "+kindOf(field.Type)+", in the contract "+property.kind(contracts))
		}
		delete(properties, name)
	}
	for name := range properties {
		found = append(found, name+" is missing")
	}
	sort.Strings(found)
	return found
}

// isSame: what may be left out is a pointer or a slice, whether or not it may also be null.
func isSame(ours, said string, isOptional bool) bool {
	if isOptional {
		ours, said = strings.TrimSuffix(ours, "?"), strings.TrimSuffix(said, "?")
	}
	return ours == said
}

// flat are all properties, also those of the shapes it is made of.
func (c contract) flat(contracts map[string]contract) (map[string]contract, map[string]bool) {
	properties, required := map[string]contract{}, map[string]bool{}
	for name, property := range c.Properties {
		properties[name] = property
	}
	for _, name := range c.Required {
		required[name] = true
	}
	for _, part := range c.AllOf {
		if part.Ref != "" {
			part = contracts[strings.TrimPrefix(part.Ref, "#/components/schemas/")]
		} else if len(part.Properties) == 0 {
			continue
		}
		more, alsoRequired := part.flat(contracts)
		for name, property := range more {
			properties[name] = property
		}
		for name := range alsoRequired {
			required[name] = true
		}
	}
	return properties, required
}

// kind is string, integer, boolean, array, object or anything, with a ? if it may be null.
func (c contract) kind(contracts map[string]contract) string {
	switch said := c.Type.(type) {
	case string:
		return said
	case []any:
		kind, null := "", ""
		for _, one := range said {
			if one == "null" {
				null = "?"
			} else {
				kind = one.(string)
			}
		}
		return kind + null
	}
	if c.Ref != "" {
		return contracts[strings.TrimPrefix(c.Ref, "#/components/schemas/")].kind(contracts)
	}
	kind, null := "anything", ""
	for _, one := range append(c.AnyOf, c.OneOf...) {
		if of := one.kind(contracts); of == "null" {
			null = "?"
		} else {
			kind = of
		}
	}
	return kind + null
}

func kindOf(shape reflect.Type) string {
	if shape == reflect.TypeOf(json.RawMessage{}) {
		return "anything"
	}
	switch shape.Kind() {
	case reflect.Pointer:
		return kindOf(shape.Elem()) + "?"
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "boolean"
	case reflect.Slice:
		return "array"
	case reflect.Struct:
		return "object"
	default:
		return "integer"
	}
}

func TestADifferenceIsFound(t *testing.T) {
	type shape struct {
		Same    string  `json:"same"`
		Kind    string  `json:"kind"`
		Null    *string `json:"null"`
		Needed  string  `json:"needed,omitempty"`
		Unknown string  `json:"unknown"`
	}
	said := contract{Required: []string{"same", "kind", "null", "needed"}, Properties: map[string]contract{
		"same": {Type: "string"}, "kind": {Type: "integer"}, "null": {Type: "string"}, "needed": {Type: "string"}, "missing": {Type: "string"},
	}}
	want := []string{"kind is string, in the contract integer", "missing is missing", "needed is required in one and not in the other",
		"null is string?, in the contract string", "unknown is not in the contract"}
	if got := differences(nil, said, reflect.TypeOf(shape{})); !reflect.DeepEqual(got, want) {
		t.Fatal(got)
	}
}

func TestTheVersionIsTheServers(t *testing.T) {
	text, err := os.ReadFile("../../Cargo.toml")
	must(t, err)
	found := regexp.MustCompile(`(?m)^\[workspace\.package\]\nversion = "(.*)"$`).FindSubmatch(text)
	if found == nil || string(found[1]) != Version {
		t.Fatalf("%q, want %q", Version, found)
	}
}

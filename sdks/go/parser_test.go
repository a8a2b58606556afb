package leasehold

import (
	"reflect"
	"strings"
	"testing"
)

func TestAMessageMayComeInAnyPieces(t *testing.T) {
	text := []byte(": hello\n\nid: 1-2\r\nevent: granted\r\ndata: {\"ü\":1}\r\n\r\ndata:x\nid:3\n\n")
	want := []message{{event: "granted", id: "1-2", data: `{"ü":1}`}, {id: "3", data: "x"}}
	for size := 1; size <= len(text); size++ {
		parser, got := &parser{}, []message{}
		for rest := text; len(rest) > 0; {
			n := size
			if n > len(rest) {
				n = len(rest)
			}
			messages, err := parser.push(rest[:n])
			if err != nil {
				t.Fatal(err)
			}
			got, rest = append(got, messages...), rest[n:]
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("in pieces of %d: %v", size, got)
		}
	}
}

func TestALineWithoutAnEndIsNotKeptForEver(t *testing.T) {
	if _, err := (&parser{}).push(make([]byte, lineBytesMax+1)); err == nil {
		t.Fatal("kept")
	}
}

func TestAnEventWithoutAnEndIsNotKeptForEver(t *testing.T) {
	parser, piece := &parser{}, []byte("data: "+strings.Repeat("x", 1<<16)+"\n")
	for n := 1; n <= 16; n++ {
		if _, err := parser.push(piece); err != nil {
			t.Fatal(n, err)
		}
	}
	if _, err := parser.push(piece); err == nil {
		t.Fatal("more than 1 MiB is kept")
	}
}

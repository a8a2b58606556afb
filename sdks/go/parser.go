package leasehold

import (
	"bytes"
	"strings"
)

// lineBytesMax is far more than any line of an event, or than all its data.
const lineBytesMax = 1 << 20

var errTooLong = &BrokenError{Why: "an event is too long"}

// message is one of the Server-Sent Events.
type message struct {
	event, id, data string
}

// parser makes messages of the pieces of a stream, as they come.
type parser struct {
	line    []byte
	message message
}

// push returns the messages that are whole now.
func (p *parser) push(piece []byte) ([]message, error) {
	var whole []message
	for {
		end := bytes.IndexByte(piece, '\n')
		if end < 0 {
			break
		}
		line := string(append(p.line, piece[:end]...))
		p.line, piece = nil, piece[end+1:]
		if line = strings.TrimSuffix(line, "\r"); line != "" {
			p.message.take(line)
			if len(p.message.data) > lineBytesMax {
				return nil, errTooLong
			}
			continue
		}
		if p.message.data != "" {
			whole = append(whole, p.message)
		}
		p.message = message{}
	}
	p.line = append(p.line, piece...)
	if len(p.line) > lineBytesMax {
		return nil, errTooLong
	}
	return whole, nil
}

func (m *message) take(line string) {
	field, value, _ := strings.Cut(line, ":")
	value = strings.TrimPrefix(value, " ")
	switch field {
	case "event":
		m.event = value
	case "id":
		m.id = value
	case "data":
		m.data += value
	}
}

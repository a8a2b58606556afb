package leasehold

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"time"
)

// newRequestID is an id for one request.
func newRequestID() string {
	return hex.EncodeToString(randomBytes(16))
}

// newOwner is an owner that is this client and no other.
func newOwner() string {
	host, err := os.Hostname()
	if err != nil {
		host = "host"
	}
	// The server takes owners of up to 256 bytes.
	if runes := []rune(host); len(runes) > 60 {
		host = string(runes[:60])
	}
	return fmt.Sprintf("%s-%d-%s", host, os.Getpid(), hex.EncodeToString(randomBytes(4)))
}

// jittered is between half of the pause and all of it.
func jittered(pause time.Duration) time.Duration {
	fraction := float64(binary.LittleEndian.Uint32(randomBytes(4))) / float64(1<<32)
	return time.Duration(float64(pause) * (0.5 + 0.5*fraction))
}

func randomBytes(n int) []byte {
	bytes := make([]byte, n)
	if _, err := rand.Read(bytes); err != nil {
		panic("the system has no random numbers: " + err.Error())
	}
	return bytes
}

package fetch

import (
	"crypto/md5"  //nolint:gosec // what S3 and Google Cloud Storage say of their files
	"crypto/sha1" //nolint:gosec // what git calls its files by
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"strings"
)

// sum is a checksum that a source gives.
type sum struct {
	name string
	hex  string
	make func(size int64) hash.Hash
}

// of works out the checksum of a file.
func (s *sum) of(r io.Reader, size int64) (string, error) {
	h := s.make(size)
	if _, err := io.Copy(h, r); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

func md5Of(text string) *sum {
	return &sum{"MD5", strings.ToLower(text), func(int64) hash.Hash { return md5.New() }} //nolint:gosec // see above
}

func sha256Of(text string) *sum {
	return &sum{"SHA-256", strings.ToLower(text), func(int64) hash.Hash { return sha256.New() }}
}

// gitOf is the name of a file in git, which is a checksum of its size and content.
func gitOf(text string) *sum {
	return &sum{"git hash", strings.ToLower(text), func(size int64) hash.Hash {
		h := sha1.New() //nolint:gosec // see above
		_, _ = fmt.Fprintf(h, "blob %d\x00", size)
		return h
	}}
}

func crc32cOf(text string) *sum {
	return &sum{"CRC32C", strings.ToLower(text), func(int64) hash.Hash { return crc32.New(crc32.MakeTable(crc32.Castagnoli)) }}
}

// String writes a checksum; sumFrom reads it.
func (s *sum) String() string {
	if s == nil {
		return ""
	}
	return s.name + ":" + s.hex
}

// sumFrom returns a checksum of which String was kept; nil is that there was none.
func sumFrom(text string) *sum {
	name, value, _ := strings.Cut(text, ":")
	for _, of := range []func(string) *sum{md5Of, sha256Of, gitOf, crc32cOf} {
		if s := of(value); s.name == name {
			return s
		}
	}
	return nil
}

// isHex reports whether text is that many bytes in hexadecimal.
func isHex(text string, bytes int) bool {
	raw, err := hex.DecodeString(text)
	return err == nil && len(raw) == bytes
}

// fromBase64 returns a checksum in hexadecimal; "" is that it is not one of that many bytes.
func fromBase64(text string, bytes int) string {
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(raw) != bytes {
		return ""
	}
	return hex.EncodeToString(raw)
}

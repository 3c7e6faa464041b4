package checkpoint

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"sync"

	"berth.dev/berth/api"
)

// NewNonce returns a name for an answer that is unique and cannot be guessed.
func NewNonce() (string, error) {
	var b [12]byte
	if _, err := rand.Read(b[:]); err != nil {
		return "", fmt.Errorf("make a name for an allocation: %w", err)
	}
	return hex.EncodeToString(b[:]), nil
}

// CDIName returns the qualified name of the CDI device of a nonce.
func CDIName(nonce string) string { return api.CDIKind + "=" + DeviceName(nonce) }

// DeviceName returns the name of the CDI device of a nonce. It begins with a
// letter, as CDI requires, whatever the nonce begins with.
func DeviceName(nonce string) string { return "n" + nonce }

// Bounds of Answers: for one set of IDs, the answers to an init container and to
// the containers that use its devices again; and no more sets than a node has
// containers.
const (
	maxAnswers = 8
	maxSets    = 4096
)

// Answers remembers the answers of this process by the device IDs that they were
// for. They are needed only while the kubelet's checkpoint cannot be read: its
// pod-resources API lists no answers. It is safe for concurrent use.
type Answers struct {
	mu     sync.Mutex
	nonces map[string][]string // guarded by mu: oldest first, by key
}

// Add remembers an answer. When there are too many, it forgets all earlier ones.
func (a *Answers) Add(resource string, ids []string, nonce string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.nonces == nil || len(a.nonces) >= maxSets {
		a.nonces = map[string][]string{}
	}
	k := key(resource, ids)
	list := append(a.nonces[k], nonce)
	a.nonces[k] = list[max(0, len(list)-maxAnswers):]
}

// For returns the nonces of the answers for a set of IDs, oldest first.
func (a *Answers) For(resource string, ids []string) []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.nonces[key(resource, ids)])
}

// Forget drops the answers for a set of IDs.
func (a *Answers) Forget(resource string, ids []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.nonces, key(resource, ids))
}

func key(resource string, ids []string) string {
	return resource + " " + strings.Join(slices.Sorted(slices.Values(ids)), " ")
}

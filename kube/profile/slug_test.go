package profile

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"
)

// userNames makes names of users of every length and many alphabets, the same each
// time: plain ones, addresses, and any letters.
func userNames(n int) []string {
	r := rand.New(rand.NewPCG(17, 7)) //nolint:gosec // the same names each time
	alphabets := [][]rune{
		[]rune("abcdefghijklmnopqrstuvwxyz0123456789"), []rune("abc-xyz-"), []rune("abcABC019.@_-"), []rune("0123456789-"),
		[]rune("aéÖßİKøłждЯ中文ñ-.@"), []rune("-._@ "), []rune("a🦆b\u00a0\t~"),
	}
	out := make([]string, n)
	for i := range out {
		letters := alphabets[r.IntN(len(alphabets))]
		name := make([]rune, 1+r.IntN(64))
		for j := range name {
			name[j] = letters[r.IntN(len(letters))]
		}
		out[i] = string(name)
	}
	return out
}

// claims returns the claim of a user by today's names, and by those of before
// kubespawner 7.
func claims(t *testing.T, user string) (today, older string) {
	t.Helper()
	n, err := newNames(Choices{User: user}, nil)
	if err != nil {
		t.Fatalf("%q: %v", user, err)
	}
	if today, err = n.expand("claim-{user_server}"); err != nil {
		t.Fatal(err)
	}
	if older, err = n.older().expand("claim-{user_server}"); err != nil {
		t.Fatal(err)
	}
	return today, older
}

// The hashes are of what kubespawner 7.1 itself answered for the same names, with
// slug_scheme safe and escape, a name a line.
func TestClaimsOf10000UsersAreKubespawners(t *testing.T) {
	todays, olders := sha256.New(), sha256.New()
	for _, user := range userNames(10000) {
		today, older := claims(t, user)
		fmt.Fprintln(todays, today)
		fmt.Fprintln(olders, older)
	}
	for _, tt := range []struct{ what, got, want string }{
		{"today's", hex.EncodeToString(todays.Sum(nil)), "9df1d35bfca33fb852cb160b38b9685b8ebc3ad26c1b2b7ae4ed1aa1af110b66"},
		{"older", hex.EncodeToString(olders.Sum(nil)), "533cb942c099de1d12d60dea19d55691461236ca63b91fdb5cb31b12a4a0b73e"},
	} {
		if tt.got != tt.want {
			t.Errorf("%s names have the hash %s, kubespawner's %s", tt.what, tt.got, tt.want)
		}
	}
}

func TestClaimsOfUsers(t *testing.T) {
	for _, tt := range []struct{ why, user, today, older string }{
		{"a plain name", "ada", "claim-ada", "claim-ada"},
		{"an address", "ada@example.com", "claim-ada-example-com---b5fc85e5", "claim-ada-40example-2ecom"},
		{"46 letters", strings.Repeat("a", 46), "claim-" + strings.Repeat("a", 46), "claim-" + strings.Repeat("a", 46)},
		{"47 letters", strings.Repeat("a", 47), "claim-aaaaaaaaaaaaaaaaa--x---b191b19d", "claim-" + strings.Repeat("a", 47)},
		{"a dash at the end", "ada-", "claim-ada---28cd54fe", "claim-ada-2d"},
	} {
		if today, older := claims(t, tt.user); today != tt.today || older != tt.older {
			t.Errorf("%s: claims %s and %s, want %s and %s", tt.why, today, older, tt.today, tt.older)
		}
	}
}

func TestNotebooksOfDifferentUsersHaveDifferentNames(t *testing.T) {
	users := userNames(10000)
	slices.Sort(users)
	of := map[string]string{}
	for _, user := range slices.Compact(users) {
		name := notebookName(user, nil)
		if len(name) > LongestName || len(validation.IsDNS1035Label(name)) > 0 {
			t.Errorf("the notebook of %q would be named %s", user, name)
		}
		if other, taken := of[name]; taken {
			t.Errorf("the notebooks of %q and %q would both be named %s", user, other, name)
		}
		of[name] = user
	}
}

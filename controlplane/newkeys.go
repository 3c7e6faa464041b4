package controlplane

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"berth.dev/berth/internal/datadir"
)

// The folders of keys. New ones are made in draft, are whole once they are in next,
// and count once next has become pki; those before are in last in the meantime.
const (
	keysDraft = "pki.draft"
	keysNext  = "pki.next"
	keysLast  = "pki.last"
)

// settleKeys ends a change of keys that was interrupted, and makes one if renew is
// set: new authorities and a new key of service accounts in place of those in
// dir/pki. Whatever was signed by the old ones is worthless then. Interrupted at any
// moment, the next call finds the old keys or the new ones, whole.
func settleKeys(dir datadir.Dir, renew bool) error {
	for _, step := range keySteps(dir, renew) {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// keySteps are the steps of settleKeys. Each can be the last one before a crash.
func keySteps(dir datadir.Dir, renew bool) []func() error {
	pki, draft, next, last := dir.Join("pki"), dir.Join(keysDraft), dir.Join(keysNext), dir.Join(keysLast)
	finish := []func() error{
		func() error { return movedIf(next, pki, last) }, // only where there are new ones
		func() error { return moved(next, pki) },
		func() error { return errors.Join(os.RemoveAll(last), os.RemoveAll(draft)) },
	}
	if !renew {
		return finish
	}
	return append(finish,
		func() error { return os.Mkdir(draft, 0o700) },
		func() error {
			_, _, err := authorities(draft)
			return err
		},
		func() error { return errors.Join(syncFolder(draft), moved(draft, next)) },
		finish[0], finish[1], finish[2],
	)
}

// movedIf moves from to to where there, too, is something. What was at to is gone.
func movedIf(there, from, to string) error {
	if _, err := os.Stat(there); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if _, err := os.Stat(from); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := os.RemoveAll(to); err != nil {
		return err
	}
	return moved(from, to)
}

// moved moves a folder, if it is there, and sees to it that this outlives a power cut.
func moved(from, to string) error {
	err := os.Rename(from, to)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return syncFolder(filepath.Dir(to))
}

// syncFolder sees to it that the names in a folder are on the disk.
func syncFolder(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// The ConfigMap by which extension API servers and metrics ports learn which clients to trust.
const (
	trustName   = "extension-apiserver-authentication"
	trustClient = "client-ca-file"
	trustProxy  = "requestheader-client-ca-file"
)

// distrustOldKeys takes authorities of before from those that extension API servers
// trust: the API server itself only ever adds its own there.
func (p *plane) distrustOldKeys(ctx context.Context, client kubernetes.Interface) error {
	maps := client.CoreV1().ConfigMaps(metav1.NamespaceSystem)
	for {
		m, err := maps.Get(ctx, trustName, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil // the API server is about to make it
		}
		want := map[string]string{trustClient: string(p.certs.ca.pem), trustProxy: string(p.certs.proxyCA.pem)}
		if err == nil && trusts(m.Data, want) {
			return nil
		}
		if err == nil {
			m.Data[trustClient], m.Data[trustProxy] = want[trustClient], want[trustProxy]
			_, err = maps.Update(ctx, m, metav1.UpdateOptions{})
		}
		if err != nil && !apierrors.IsConflict(err) {
			return fmt.Errorf("take old keys from ConfigMap %s: %w", trustName, err)
		}
	}
}

// trusts reports whether a ConfigMap has no other authorities than those wanted.
func trusts(have, want map[string]string) bool {
	for key, pem := range want {
		if had := have[key]; had != "" && had != pem {
			return false
		}
	}
	return true
}

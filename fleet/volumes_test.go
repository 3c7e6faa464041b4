package fleet_test

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
)

// fails lets calls of a verb on a resource fail while the result is true.
func (w *world) fails(verb, resource string) *atomic.Bool {
	on := new(atomic.Bool)
	on.Store(true)
	w.client.PrependReactor(verb, resource, func(clienttesting.Action) (bool, runtime.Object, error) {
		return on.Load(), nil, apierrors.NewInternalError(errors.New("the store does not answer"))
	})
	return on
}

// claim creates a claim that wants a simulated volume of a class.
func (w *world) claim(name, class string, modes ...v1.PersistentVolumeAccessMode) {
	w.t.Helper()
	pvc := &v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: "u-1", Annotations: map[string]string{"volume.kubernetes.io/storage-provisioner": "berth.dev/simulated"}},
		Spec: v1.PersistentVolumeClaimSpec{StorageClassName: &class, AccessModes: modes, Resources: v1.VolumeResourceRequirements{
			Requests: v1.ResourceList{v1.ResourceStorage: resource.MustParse("10Gi")},
		}},
	}
	if _, err := w.client.CoreV1().PersistentVolumeClaims("default").Create(w.t.Context(), pvc, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// volumes are the names of all volumes.
func (w *world) volumes() string {
	w.t.Helper()
	list, err := w.client.CoreV1().PersistentVolumes().List(w.t.Context(), metav1.ListOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	var names []string
	for _, v := range list.Items {
		names = append(names, v.Name)
	}
	return strings.Join(names, " ")
}

// A class with the parameter accessModes makes no volume of another access mode, as block
// storage does not.
func TestAClassProvidesItsAccessModesOnly(t *testing.T) {
	inWorld(t, func(w *world) {
		w.storageClass("block")
		class, err := w.client.StorageV1().StorageClasses().Get(t.Context(), "block", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		class.Parameters = map[string]string{"accessModes": "ReadWriteOnce"}
		if _, err := w.client.StorageV1().StorageClasses().Update(t.Context(), class, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		w.claim("data", "block", v1.ReadWriteMany)
		w.after(time.Minute)
		if e := w.events(); w.volumes() != "" || !strings.Contains(e, "data ProvisioningFailed: access mode ReadWriteMany is not supported: storage class block provides ReadWriteOnce") {
			t.Errorf("volumes are %q; events are\n%s", w.volumes(), e)
		}
	}, a100("n1", 1))
}

func TestAVolumeIsTriedAgain(t *testing.T) {
	inWorld(t, func(w *world) {
		failing := w.fails("create", "persistentvolumes")
		w.claim("data", "standard")
		w.after(10 * time.Second) // there is no such class
		w.storageClass("standard")
		w.after(time.Minute)
		e := w.events()
		if w.volumes() != "" || !strings.Contains(e, `data ProvisioningFailed: storageclass "standard"`) || !strings.Contains(e, "data ProvisioningFailed: create volume pvc-u-1: ") {
			t.Errorf("volumes are %q while none can be made; events are\n%s", w.volumes(), e)
		}
		failing.Store(false)
		w.after(time.Minute)
		if w.volumes() != "pvc-u-1" {
			t.Fatalf("volumes are %q, want the one of the claim", w.volumes())
		}
		failing = w.fails("delete", "persistentvolumes")
		pv, err := w.client.CoreV1().PersistentVolumes().Get(t.Context(), "pvc-u-1", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		pv.Status.Phase = v1.VolumeReleased
		if _, err := w.client.CoreV1().PersistentVolumes().UpdateStatus(t.Context(), pv, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		w.after(10 * time.Second)
		failing.Store(false)
		w.after(time.Minute)
		if w.volumes() != "" {
			t.Errorf("volume %s is still there", w.volumes())
		}
	}, a100("n1", 1))
}

func TestAVolumeIsNotMadeForAClaimThatIsGone(t *testing.T) {
	inWorld(t, func(w *world) {
		w.claim("data", "standard")
		w.after(time.Second)
		if err := w.client.CoreV1().PersistentVolumeClaims("default").Delete(t.Context(), "data", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		w.storageClass("standard")
		w.after(5 * time.Minute)
		if w.volumes() != "" {
			t.Errorf("volume %s was made for no claim", w.volumes())
		}
	}, a100("n1", 1))
}

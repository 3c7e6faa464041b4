package v1alpha1_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"berth.dev/berth/api/v1alpha1"
)

// filled sets every field of a value to something, slices to one element.
func filled(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		filled(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		filled(v.Index(0))
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		filled(key)
		filled(value)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Struct:
		switch at := v.Addr().Interface().(type) {
		case *resource.Quantity:
			*at = resource.MustParse("0.0000000000000000000000001e12") // kept by pointer
		case *metav1.Time:
			*at = metav1.Time{Time: time.Unix(1, 0)}
		default:
			for _, f := range v.Fields() {
				filled(f)
			}
		}
	case reflect.String:
		v.SetString("a")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Uint8:
		v.SetUint(1)
	case reflect.Float64:
		v.SetFloat(1)
	case reflect.Int64, reflect.Int32:
		v.SetInt(1)
	default:
		panic("no value for a " + v.Kind().String())
	}
}

// shared lists the fields of two values that point at the same memory.
func shared(path string, a, b reflect.Value) (out []string) {
	kind := a.Kind()
	if kind == reflect.Pointer || kind == reflect.Slice || kind == reflect.Map {
		if a.Pointer() == b.Pointer() && a.Type() != reflect.TypeFor[*time.Location]() {
			out = append(out, path)
		}
	}
	switch {
	case kind == reflect.Pointer:
		out = append(out, shared(path, a.Elem(), b.Elem())...)
	case kind == reflect.Slice:
		for i := range a.Len() {
			out = append(out, shared(path, a.Index(i), b.Index(i))...)
		}
	case kind == reflect.Struct && a.Type() != reflect.TypeFor[time.Time]():
		for i := range a.NumField() {
			out = append(out, shared(path+"."+a.Type().Field(i).Name, a.Field(i), b.Field(i))...)
		}
	}
	return out
}

func TestACopyOfAQueueSharesNothing(t *testing.T) {
	q := &v1alpha1.Queue{}
	filled(reflect.ValueOf(q).Elem())
	c := q.DeepCopyObject().(*v1alpha1.Queue)
	if diff := cmp.Diff(q, c); diff != "" {
		t.Errorf("the copy differs -original +copy\n%s", diff)
	}
	for _, part := range []string{"Spec", "Status", "ObjectMeta"} {
		for _, path := range shared(part, reflect.ValueOf(q).Elem().FieldByName(part), reflect.ValueOf(c).Elem().FieldByName(part)) {
			t.Errorf("%s is shared", path)
		}
	}
	list := &v1alpha1.QueueList{Items: []v1alpha1.Queue{*q}}
	if copied := list.DeepCopyObject().(*v1alpha1.QueueList); &copied.Items[0] == &list.Items[0] || !cmp.Equal(list, copied) {
		t.Error("the copy of a list differs or shares its items")
	}
	if (*v1alpha1.Queue)(nil).DeepCopy() != nil {
		t.Error("a copy of nil is not nil")
	}
}

func TestACopyOfAPriceBookSharesNothing(t *testing.T) {
	b := &v1alpha1.PriceBook{}
	filled(reflect.ValueOf(b).Elem())
	c := b.DeepCopyObject().(*v1alpha1.PriceBook)
	if diff := cmp.Diff(b, c); diff != "" {
		t.Errorf("the copy differs -original +copy\n%s", diff)
	}
	for _, part := range []string{"Spec", "ObjectMeta"} {
		for _, path := range shared(part, reflect.ValueOf(b).Elem().FieldByName(part), reflect.ValueOf(c).Elem().FieldByName(part)) {
			t.Errorf("%s is shared", path)
		}
	}
}

func TestTheSchemeKnowsTheKinds(t *testing.T) {
	s := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{v1alpha1.KindNotebookProfile, v1alpha1.KindNotebookProfile + "List", v1alpha1.KindPriceBook, v1alpha1.KindPriceBook + "List", v1alpha1.KindQueue, v1alpha1.KindQueue + "List"} {
		if _, err := s.New(v1alpha1.GroupVersion.WithKind(kind)); err != nil {
			t.Error(err)
		}
	}
}

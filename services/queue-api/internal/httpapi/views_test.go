package httpapi

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"hanjul/pkg/product"
	"hanjul/pkg/waitingroom"
)

// viewer answers View by a function; nothing else is asked of it.
type viewer struct {
	Room
	view func(ctx context.Context) (waitingroom.ProductView, error)
}

func (v viewer) View(ctx context.Context, _ product.ID) (waitingroom.ProductView, error) {
	return v.view(ctx)
}

func TestViews(t *testing.T) {
	t.Parallel()
	fine := waitingroom.ProductView{}
	fine.PassMS = (10 * time.Minute).Milliseconds()
	quiet := slog.New(slog.DiscardHandler)

	t.Run("OneQuestionASecondWhateverTheCrowd", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			var asked atomic.Int64
			v := newViews(viewer{view: func(context.Context) (waitingroom.ProductView, error) {
				asked.Add(1)
				time.Sleep(10 * time.Millisecond)
				return fine, nil
			}}, quiet, time.Second, time.Second, true)
			get := func() {
				if _, err := v.get(t.Context(), "shoe"); err != nil {
					t.Error(err)
				}
			}
			get() // a product that nobody asked about yet has nothing to share
			for range 5 {
				time.Sleep(viewLife)
				for range 100 {
					go get()
				}
				time.Sleep(20 * time.Millisecond)
			}
			if n := asked.Load(); n != 6 {
				t.Fatalf("asked %d times, want 6", n)
			}
		})
	})

	t.Run("AStoreThatIsAwayIsWaitedForOnce", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			away := false
			v := newViews(viewer{view: func(ctx context.Context) (waitingroom.ProductView, error) {
				if away {
					<-ctx.Done()
					return waitingroom.ProductView{}, ctx.Err()
				}
				return fine, nil
			}}, quiet, time.Second, 2*time.Second, true)
			if _, err := v.get(t.Context(), "shoe"); err != nil {
				t.Fatal(err)
			}
			away = true
			time.Sleep(2 * viewLife)
			began, ended := time.Now(), make(chan error, 100)
			for range cap(ended) {
				go func() {
					_, err := v.get(t.Context(), "shoe")
					ended <- err
				}()
			}
			for range cap(ended) {
				if err := <-ended; !errors.Is(err, errUnavailable) {
					t.Fatal(err)
				}
			}
			if took := time.Since(began); took > 2*time.Second {
				t.Fatalf("they stood in a row for %s", took)
			}
		})
	})

	t.Run("AShortPassLifeIsAWarningOnceOrARefusal", func(t *testing.T) {
		t.Parallel()
		short := viewer{view: func(context.Context) (waitingroom.ProductView, error) {
			return waitingroom.ProductView{Settings: product.Settings{PassMS: 5000}}, nil
		}}
		synctest.Test(t, func(t *testing.T) {
			var out bytes.Buffer
			v := newViews(short, slog.New(slog.NewTextHandler(&out, nil)), time.Second, time.Second, true)
			for range 3 {
				if _, err := v.get(t.Context(), "shoe"); err != nil {
					t.Fatal(err)
				}
				time.Sleep(2 * viewLife)
			}
			if strings.Count(out.String(), "pass life is short") != 1 {
				t.Fatal(out.String())
			}
		})
		if _, err := newViews(short, quiet, time.Second, time.Second, false).get(t.Context(), "shoe"); !errors.Is(err, errNotReady) {
			t.Fatal(err)
		}
	})
}

package httpapi_test

import (
	"bytes"
	"fmt"
	"net/netip"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"hanjul/pkg/product"
	"hanjul/services/queue-api/internal/apitest"
	"hanjul/services/queue-api/internal/httpapi"
	"hanjul/services/queue-api/internal/live"
	"hanjul/services/queue-api/internal/streams"
)

// streamsOpen is how many streams of a kind are measured.
const streamsOpen = 2_000

// BenchmarkStreams is the memory of this process for each open stream in line, after its reader was told several positions. Readers are bare
// sockets, which take none of it.
func BenchmarkStreams(b *testing.B) {
	for range b.N {
		for form, upgrade := range map[string]string{
			"events":  "",
			"sockets": "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n",
		} {
			shop := apitest.New(b, apitest.Options{
				Live:    live.Config{Every: 250 * time.Millisecond, Wait: 30 * time.Second, Timeout: 30 * time.Second},
				Streams: streams.Config{Max: 2 * streamsOpen, PerUser: streamsOpen},
				Surface: func(c *httpapi.Config) { c.StreamNearest = 2 * streamsOpen; c.Heartbeat = time.Minute },
			})
			base := shop.Serve(b, nil)
			first := shop.Person("first")
			first.Join(b)
			second := shop.Person("second")
			second.Join(b)
			people := make([]*apitest.Person, streamsOpen)
			for i := range people {
				people[i] = shop.Person(product.UserID(fmt.Sprintf("user-%d", i)))
				people[i].Join(b)
			}
			before := memory()
			sockets := make([]int, streamsOpen)
			for i, p := range people {
				address := p.Poll(b).Text("stream_url")
				if address == "" {
					b.Fatal("no stream is offered")
				}
				sockets[i] = dial(b, base)
				head := "GET " + address + " HTTP/1.1\r\nHost: shop.example\r\nUser-Agent: Mozilla/5.0 (X11; Linux x86_64) of a browser, as long as they are\r\nAccept: text/event-stream\r\nAccept-Language: ko,en;q=0.8\r\n" + upgrade + "\r\n"
				if _, err := syscall.Write(sockets[i], []byte(head)); err != nil {
					b.Fatal(err)
				}
				expect(b, sockets[i], fmt.Sprintf(`"position":%d,`, i+3))
			}
			for ahead := range 2 { // each is told two other positions
				shop.Admit(b, 1)
				for i, s := range sockets {
					expect(b, s, fmt.Sprintf(`"position":%d,`, i+2-ahead))
				}
			}
			each := (memory() - before) / streamsOpen
			b.ReportMetric(float64(each), form+"-bytes/stream")
			fmt.Printf("bench line-streams-%s: %d open, %.1f KiB each, aim 16 KiB\n", form, streamsOpen, float64(each)/1024)
			for _, s := range sockets {
				_ = syscall.Close(s)
			}
		}
	}
}

// memory is what heap and stacks take, without garbage.
func memory() int64 {
	for range 3 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}

// dial connects a socket that the runtime knows nothing of.
func dial(b *testing.B, base string) int {
	b.Helper()
	address, err := netip.ParseAddrPort(strings.TrimPrefix(base, "http://"))
	if err != nil {
		b.Fatal(err)
	}
	s, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		b.Fatal(err)
	}
	if err := syscall.SetsockoptTimeval(s, syscall.SOL_SOCKET, syscall.SO_RCVTIMEO, &syscall.Timeval{Sec: 60}); err != nil {
		b.Fatal(err)
	}
	if err := syscall.Connect(s, &syscall.SockaddrInet4{Port: int(address.Port()), Addr: address.Addr().As4()}); err != nil {
		b.Fatal(err)
	}
	return s
}

// expect reads until a text came.
func expect(b *testing.B, socket int, text string) {
	b.Helper()
	var read []byte
	var some [4096]byte
	for !bytes.Contains(read, []byte(text)) {
		n, err := syscall.Read(socket, some[:])
		if err != nil || n == 0 {
			b.Fatalf("no %s in %q: %v", text, read, err)
		}
		read = append(read, some[:n]...)
	}
}

// SPDX-License-Identifier: LGPL-2.1-or-later

import dev.userevd.userev.Event;
import dev.userevd.userev.RefusedException;
import dev.userevd.userev.TypedEvent;
import dev.userevd.userev.Unsigned;
import dev.userevd.userev.Userev;

/** A shop that answers ten requests, one each 100 ms. To read its records: {@code userevctl tail 'shop_*'}. */
public final class Shop {
    private record Request(@Unsigned int status, @Unsigned long ns, String path) {}

    private final TypedEvent<Request> requests;
    private final Event closed;

    private Shop(TypedEvent<Request> requests, Event closed) {
        this.requests = requests;
        this.closed = closed;
    }

    private static Shop open(Userev userev) {
        try {
            return new Shop(userev.declare("shop_request", Request.class), userev.register("shop_closed u32 served; __rel_loc char[] why"));
        } catch (RefusedException e) {
            System.err.println("The shop is not traced: " + e.getMessage());
            return new Shop(TypedEvent.off(), Event.off());
        }
    }

    private void serve(String path) throws InterruptedException {
        long began = System.nanoTime();
        Thread.sleep(100);
        requests.emit(() -> new Request(path.equals("/") ? 200 : 404, System.nanoTime() - began, path));
    }

    /**
     * Runs the shop.
     *
     * @param args none
     * @throws InterruptedException never
     */
    public static void main(String[] args) throws InterruptedException {
        try (Userev userev = Userev.open()) {
            Shop shop = open(userev);
            for (int i = 0; i < 10; i++)
                shop.serve(i % 2 == 0 ? "/" : "/favicon.ico");
            shop.closed.begin().int32(10).string("it is late").end();
        }
    }
}
